// The array that everything computes on: dense, row-major, on one device, of one element type.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <sinter/runtime/dtype.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/shape.h>
#include <sinter/runtime/storage.h>

namespace sinter {

struct Leaf;

/// Which value of which tape a tensor is. The runtime only carries it; autograd/tape.h reads it.
struct TapeSlot {
  /// The index of a handle that detach() made: numbers, whatever a tape knows of its elements.
  static constexpr std::int32_t detached = -2;

  std::uint64_t tape = 0;  ///< 0: not recorded
  std::int32_t index = -1;
  std::uint64_t version = 0;  ///< of the storage when it was recorded
};

/// A handle: copies share the elements. A default-made one is undefined and holds nothing.
class Tensor {
 public:
  Tensor() = default;

  /// Elements not set.
  static Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = {});
  static Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = {});
  /// Every element is `value`, converted to `dtype`.
  static Tensor full(const Shape& shape, double value, DType dtype = DType::float32,
                     Device device = {});
  /// A copy of `values`. Throws Error unless there are shape.numel() of them.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = {}) {
    return from_bytes(std::as_bytes(values), values.size(), shape, dtype_of<T>, device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {}) {
    return from(std::span<const T>(values), shape, device);
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape, Device device = {}) {
    return from(std::span<const T>(values.begin(), values.size()), shape, device);
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t size(int dim) const { return shape_[dim]; }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return defined() ? shape_.numel() : 0; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return defined() ? storage_->device() : Device{}; }

  /// The elements of a CPU tensor. Throws Error for another dtype or device. Writing through the
  /// pointer tells nobody: call bump_version() after it where a tape may hold the tensor.
  template <class T>
  T* data() {
    return static_cast<T*>(checked_data(dtype_of<T>));
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(checked_data(dtype_of<T>));
  }
  template <class T>
  std::span<const T> values() const& {
    return {data<T>(), static_cast<std::size_t>(numel())};
  }
  template <class T>
  std::span<const T> values() const&& = delete;  // would dangle

  /// Copies all elements out of any device; the span must be of their type and number.
  template <class T>
  void copy_to(std::span<T> out) const {
    copy_out(std::as_writable_bytes(out), out.size(), dtype_of<T>);
  }
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> out(static_cast<std::size_t>(numel()));
    copy_to(std::span<T>(out));
    return out;
  }
  /// Overwrites all elements, on any device.
  template <class T>
  void copy_from(std::span<const T> in) {
    copy_in(std::as_bytes(in), in.size(), dtype_of<T>);
  }
  /// Overwrites all elements with those of `source`: same shape and dtype, any device. Copies
  /// numbers only; throws Error for a recorded source, whose gradient would be lost: detach() it
  /// first.
  void copy_from(const Tensor& source);
  void fill(double value);
  /// The only element, as a double. Throws Error unless there is exactly one.
  double item() const;

  /// The same elements under another shape of equal count; one size may be -1. Costs nothing, and
  /// the gradient passes through it.
  Tensor reshape(const Shape& shape) const;
  Tensor reshape(std::initializer_list<std::int64_t> sizes) const;
  /// Rows [begin, end) of the first dimension, sharing the elements. Of a recorded value it is an
  /// error: sinter::rows(x, begin, end) records it.
  Tensor view_rows(std::int64_t begin, std::int64_t end) const;
  /// On `device`: this tensor itself where it is there already, else a copy. Throws Error for a
  /// recorded value or a leaf that would have to be copied (the gradient would be lost): detach()
  /// it first.
  Tensor to(Device device) const;
  /// With elements converted (on the CPU, then back to this device); this tensor itself where it
  /// has the type. Throws Error for a recorded value and for a leaf: detach() it first. To an
  /// integer type it truncates, holds at the ends of the type's range, and makes NaN 0.
  Tensor to(DType dtype) const;
  /// A copy with elements of its own, unknown to any tape. Throws Error for a recorded value and
  /// for a leaf, whose gradient would be lost: detach() it first.
  Tensor clone() const;
  /// The same elements, unknown to any tape.
  Tensor detach() const;

  /// Whether backward leaves a gradient in grad().
  bool requires_grad() const { return leaf_ != nullptr; }
  /// Makes this handle (and copies made of it from here on) a leaf of the graph. Throws Error for a
  /// type that is not floating and for a value that a tape recorded.
  Tensor& set_requires_grad(bool required = true);
  /// The gradient that backward left since the last optimizer step or clear_grad(), else undefined.
  Tensor grad() const;
  /// The next backward overwrites the gradient instead of adding to it.
  void clear_grad();

  // What follows is for kernels, autograd and optimizers.

  /// The elements on whatever device they are; unchecked.
  template <class T>
  T* raw() const {
    return reinterpret_cast<T*>(address());
  }
  std::byte* address() const {
    return defined() && storage_->data() != nullptr ? storage_->data() + offset_ : nullptr;
  }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::uint64_t version() const { return defined() ? storage_->version() : 0; }
  void bump_version() {
    if (defined()) {
      storage_->bump_version();
    }
  }
  /// Elements have been written: raises the version, and tells a graph under recording.
  void mark_written();
  /// Elements [first, first + shape.numel()) of this one-dimensional tensor, as a storage slice
  /// with a version of its own.
  Tensor slice(std::int64_t first, const Shape& shape) const;
  /// The same from byte `first` on of this uint8 tensor, whose bytes are elements of `dtype`.
  Tensor slice_as(std::int64_t first, const Shape& shape, DType dtype) const;
  const TapeSlot& slot() const { return slot_; }
  void set_slot(const TapeSlot& slot) { slot_ = slot; }
  const std::shared_ptr<Leaf>& leaf() const { return leaf_; }
  void set_leaf(std::shared_ptr<Leaf> leaf) { leaf_ = std::move(leaf); }

 private:
  static Tensor from_bytes(std::span<const std::byte> bytes, std::size_t count, const Shape& shape,
                           DType dtype, Device device);
  Tensor slice_of_storage(std::size_t offset, const Shape& shape, DType dtype) const;
  void* checked_data(DType wanted) const;
  void copy_out(std::span<std::byte> out, std::size_t count, DType dtype) const;
  void copy_in(std::span<const std::byte> in, std::size_t count, DType dtype);
  void require_defined(const char* what) const;
  void refuse_recorded(const char* what, const char* instead) const;

  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;  // bytes
  Shape shape_;
  DType dtype_ = DType::float32;
  TapeSlot slot_;
  std::shared_ptr<Leaf> leaf_;
};

/// A gradient that is computed when it is first asked for.
class PendingGradient {
 public:
  virtual ~PendingGradient() = default;
  /// Computes it, and those of other leaves with it; none of them is pending afterwards.
  virtual void materialise() = 0;
};

/// Where backward leaves the gradient of a leaf.
struct Leaf {
  Shape shape;  ///< of the leaf, which its gradient takes, as it does type and device
  DType dtype = DType::float32;
  Device device;
  Tensor grad;         ///< a slice of the model's flat gradient buffer, or made by backward
  bool fresh = false;  ///< grad holds a gradient that no optimizer step has consumed
  std::shared_ptr<PendingGradient> pending = nullptr;  ///< or will hold it, once this is done

  /// There is no gradient any more.
  void drop() {
    fresh = false;
    pending = nullptr;
  }
  /// What is pending is computed.
  void settle() {
    if (const auto promised = pending) {
      promised->materialise();
    }
  }
};

/// "Tensor [2, 3] float32 cpu {0.5, 1, ...}", for messages and debugging.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace sinter
