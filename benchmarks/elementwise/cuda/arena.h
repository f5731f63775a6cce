// The tensors that the benchmark works on: four as long as `whole`, full of normal numbers, in one
// type, of which a size takes slices.
#pragma once

#include <vector>

#include "../cases.h"
#include <sinter/runtime/tensor.h>

namespace bench {

class Arena {
 public:
  Arena(sinter::Device device, sinter::DType dtype);

  sinter::Device device() const { return device_; }
  sinter::DType dtype() const { return dtype_; }

  /// Launch i of a size works on slice i, modulo their number.
  struct Slices {
    std::vector<sinter::Tensor> x, y, dy, dx;
    std::size_t of(int launch) const { return static_cast<std::size_t>(launch) % x.size(); }
  };
  Slices slices(std::int64_t n) const;

 private:
  sinter::Device device_;
  sinter::DType dtype_;
  sinter::Tensor x_, y_, dy_, dx_;
};

}  // namespace bench
