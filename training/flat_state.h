// What goes along with parameters, element by element: momentum, an average. Internal to training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinter/layers/parameter.h>

namespace sinter {

/// Tensors in which the parameters lie one after the other, each at a boundary as in a flat buffer.
/// They follow the parameters to another type or device.
class FlatState {
 public:
  /// So many tensors, of zeros; undefined before follow(). `wide`: float32 for 16-bit parameters,
  /// else their type.
  explicit FlatState(std::size_t count, bool wide = false) : tensors_(count), wide_(wide) {}

  /// Whether follow() has nothing to do.
  bool follows(const Parameters& parameters) const;
  /// Takes the type and device that the parameters, all of one, have now.
  void follow(const Parameters& parameters);
  const std::vector<Tensor>& tensors() const { return tensors_; }
  bool is_placed() const { return !offsets_.empty(); }
  /// Where parameter i begins.
  std::int64_t offset(std::size_t i) const { return offsets_[i]; }
  /// So many elements of each tensor, from parameter i on.
  std::vector<Tensor> rows(std::size_t i, std::int64_t elements) const;

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::int64_t> offsets_;  // of each parameter
  DType dtype_ = DType::float32;       // of the parameters, as is
  Device device_;
  bool wide_;
};

}  // namespace sinter
