// What a module keeps beside its parameters, as running statistics are: saved and moved with them,
// but no optimizer's business.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter {

/// A module's member. Copying a module copies its values. A floating one is float64 in a float64
/// model and float32 in all others: in a 16-bit type an average over many batches would stand
/// still. One of another type keeps that.
class Buffer {
 public:
  /// An absent buffer.
  Buffer() = default;
  explicit Buffer(Tensor values) : values_(std::move(values)) {}
  /// Every element is `value`. Made when first asked for, as parameters are: a model that is only
  /// described takes no memory, whatever the text of a stranger says.
  Buffer(const Shape& shape, double value, DType dtype = DType::float32)
      : unmade_(Fill{shape, value, dtype}) {}
  Buffer(const Buffer& other)
      : values_(other.values_.defined() ? other.values_.clone() : Tensor{}),
        unmade_(other.unmade_) {}
  Buffer& operator=(const Buffer& other) {
    *this = Buffer(other);
    return *this;
  }
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;
  ~Buffer() = default;

  bool present() const { return values_.defined() || unmade_.has_value(); }
  /// Of a buffer that is present; makes no elements.
  const Shape& shape() const { return unmade_ ? unmade_->shape : values_.shape(); }
  DType dtype() const { return unmade_ ? unmade_->dtype : values_.dtype(); }
  /// Undefined where the buffer is absent.
  const Tensor& value() const {
    if (unmade_) {
      values_ = Tensor::full(unmade_->shape, unmade_->value, unmade_->dtype);
      unmade_.reset();
    }
    return values_;
  }

  void to(Device device) { values_ = value().to(device); }
  void to(DType model) {
    if (is_floating(value().dtype())) {
      values_ = values_.to(model == DType::float64 ? DType::float64 : DType::float32);
    }
  }

 private:
  struct Fill {
    Shape shape;
    double value;
    DType dtype;
  };

  mutable Tensor values_;
  mutable std::optional<Fill> unmade_;
};

/// A buffer's values with its place in the model, "1.running_mean".
struct NamedBuffer {
  std::string name;
  Tensor value;
};
using Buffers = std::vector<NamedBuffer>;

}  // namespace sinter
