#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <utility>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/graph.h>
#include <sinter/runtime/tensor.h>

namespace sinter {
namespace {

// Calls use(T{}) with T the element type that `dtype` stands for.
template <class Use>
void with_type(DType dtype, Use use) {
  switch (dtype) {
    case DType::float64:
      return use(double{});
    case DType::float32:
      return use(float{});
    case DType::float16:
      return use(float16{});
    case DType::bfloat16:
      return use(bfloat16{});
    case DType::int64:
      return use(std::int64_t{});
    case DType::int32:
      return use(std::int32_t{});
    case DType::uint8:
      return use(std::uint8_t{});
  }
}

template <class T>
constexpr bool is_16_bit_float = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// The float from which a 16-bit type rounds as it would from `value` itself: where it is inexact,
// the odd one of its two neighbours, which no second rounding mistakes for a tie (Boldo and
// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
// odd", 2008).
template <class From>
float to_float_for_rounding(From value) {
  const auto near = static_cast<float>(value);
  const auto wide = static_cast<double>(value);
  const auto back = static_cast<double>(near);
  if (back == wide || !(std::abs(back) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    return near;
  }
  const float toward_zero = std::abs(back) > std::abs(wide) ? std::nextafter(near, 0.0f) : near;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(toward_zero) | 1u);
}

template <class To, class From>
To convert(From value) {
  if constexpr (is_16_bit_float<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (is_16_bit_float<To>) {
    return To(to_float_for_rounding(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // A cast of what the integer type cannot hold is undefined.
    constexpr auto low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr auto high = static_cast<double>(std::numeric_limits<To>::max());
    const auto wide = static_cast<double>(value);
    return wide <= low    ? std::numeric_limits<To>::min()
           : wide >= high ? std::numeric_limits<To>::max()
           : wide == wide ? static_cast<To>(wide)
                          : To{0};
  } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    constexpr auto low = std::numeric_limits<To>::min();
    constexpr auto high = std::numeric_limits<To>::max();
    return std::cmp_less(value, low)       ? low
           : std::cmp_greater(value, high) ? high
                                           : static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  std::size_t bytes = 0;
  check(!__builtin_mul_overflow(static_cast<std::size_t>(shape.numel()), size_of(dtype), &bytes),
        "a tensor of shape ", shape, " and type ", dtype, " has more bytes than can be addressed");
  Tensor out;
  out.storage_ = std::make_shared<Storage>(device, bytes);
  out.shape_ = shape;
  out.dtype_ = dtype;
  return out;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0.0, dtype, device);
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  out.fill(value);
  return out;
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, std::size_t count, const Shape& shape,
                          DType dtype, Device device) {
  check(count == static_cast<std::size_t>(shape.numel()), "Tensor::from: shape ", shape, " takes ",
        shape.numel(), " values, got ", count);
  Tensor out = empty(shape, dtype, device);
  out.copy_in(bytes, count, dtype);
  return out;
}

void Tensor::require_defined(const char* what) const {
  check(defined(), what, ": the tensor is undefined (default-made, or moved from)");
}

void Tensor::refuse_recorded(const char* what, const char* instead) const {
  check(slot_.tape == 0 && leaf_ == nullptr, what, ": the tensor of shape ", shape_,
        " is known to autograd and its gradient would be lost; ", instead);
}

void* Tensor::checked_data(DType wanted) const {
  require_defined("Tensor::data");
  check(wanted == dtype_, "Tensor::data: the elements are ", dtype_, ", asked for as ", wanted);
  check(device().type == DeviceType::cpu, "Tensor::data: the tensor lives on ", device(),
        "; use to(Device::cpu()) or copy_to first");
  return address();
}

void Tensor::copy_out(std::span<std::byte> out, std::size_t count, DType dtype) const {
  require_defined("Tensor::copy_to");
  check(dtype == dtype_ && count == static_cast<std::size_t>(numel()), "Tensor::copy_to: ", numel(),
        " elements of ", dtype_, " do not go into ", count, " of ", dtype);
  backend(device().type).copy_to_host(device().index, out.data(), address(), bytes());
}

void Tensor::copy_in(std::span<const std::byte> in, std::size_t count, DType dtype) {
  require_defined("Tensor::copy_from");
  check(dtype == dtype_ && count == static_cast<std::size_t>(numel()),
        "Tensor::copy_from: ", numel(), " elements of ", dtype_, " cannot be taken from ", count,
        " of ", dtype);
  backend(device().type).copy_from_host(device().index, address(), in.data(), bytes());
  mark_written();
}

void Tensor::copy_from(const Tensor& source) {
  require_defined("Tensor::copy_from");
  source.require_defined("Tensor::copy_from");
  check(source.slot_.tape == 0, "Tensor::copy_from: the source of shape ", source.shape_,
        " is recorded by a tape and its gradient would be lost; detach() it first");
  check(shape_ == source.shape_ && dtype_ == source.dtype_, "Tensor::copy_from: ", dtype_, " ",
        shape_, " cannot be taken from ", source.dtype_, " ", source.shape_);
  const Device to = device();
  const Device from = source.device();
  if (to == from) {
    backend(to.type).copy(to.index, address(), source.address(), bytes());
  } else if (from.type == DeviceType::cpu) {
    backend(to.type).copy_from_host(to.index, address(), source.address(), bytes());
  } else if (to.type == DeviceType::cpu) {
    backend(from.type).copy_to_host(from.index, address(), source.address(), bytes());
  } else {
    copy_from(source.detach().to(Device::cpu()));
    return;  // the inner call raised the version
  }
  mark_written();
}

void Tensor::fill(double value) {
  require_defined("Tensor::fill");
  with_type(dtype_, [&]<class T>(T) {
    const T element = convert<T>(value);
    backend(device().type)
        .fill(device().index, address(), &element, sizeof(T), static_cast<std::size_t>(numel()));
  });
  mark_written();
}

double Tensor::item() const {
  check(numel() == 1, "Tensor::item: expected exactly one element, the shape is ", shape_,
        defined() ? "" : " and the tensor is undefined");
  double out = 0;
  with_type(dtype_, [&]<class T>(T) {
    T element{};
    copy_to(std::span<T>(&element, 1));
    out = convert<double>(element);
  });
  return out;
}

Tensor Tensor::reshape(const Shape& shape) const {
  require_defined("Tensor::reshape");
  check(shape.numel() == numel(), "Tensor::reshape: shape ", shape_, " of ", numel(),
        " elements cannot become ", shape, " of ", shape.numel());
  Tensor out = *this;
  out.shape_ = shape;
  return out;
}

Tensor Tensor::reshape(std::initializer_list<std::int64_t> sizes) const {
  require_defined("Tensor::reshape");
  if (std::ranges::find(sizes, -1) == sizes.end()) {
    return reshape(Shape(sizes));
  }
  std::vector<std::int64_t> filled(sizes);
  const auto open = std::ranges::find(filled, -1);
  check(std::ranges::count(filled, -1) == 1, "Tensor::reshape: only one size may be -1");
  *open = 1;
  const std::int64_t known = Shape(std::span<const std::int64_t>(filled)).numel();
  check(known != 0 && numel() % known == 0, "Tensor::reshape: shape ", shape_, " of ", numel(),
        " elements does not divide into the ", known, " of the sizes given besides -1");
  *open = numel() / known;
  return reshape(Shape(std::span<const std::int64_t>(filled)));
}

Tensor Tensor::view_rows(std::int64_t begin, std::int64_t end) const {
  require_defined("Tensor::view_rows");
  refuse_recorded("Tensor::view_rows", "use sinter::rows(x, begin, end), or detach() it first");
  check(rank() >= 1, "Tensor::view_rows: a scalar has no rows");
  check(0 <= begin && begin <= end && end <= size(0), "Tensor::view_rows: rows [", begin, ", ", end,
        ") do not lie within the ", size(0), " of shape ", shape_);
  Tensor out = *this;
  out.shape_ = shape_.with(0, end - begin);
  const std::int64_t row = size(0) == 0 ? 0 : numel() / size(0);
  out.offset_ += static_cast<std::size_t>(begin * row) * size_of(dtype_);
  return out;
}

void Tensor::mark_written() {
  bump_version();
  if (Graph* graph = Graph::recording()) [[unlikely]] {
    graph->writes(*this);
  }
}

Tensor Tensor::slice(std::int64_t first, const Shape& shape) const {
  require_defined("Tensor::slice");
  check(first >= 0 && first <= numel() && shape.numel() <= numel() - first,
        "Tensor::slice: ", shape.numel(), " elements from ", first, " on do not lie within the ",
        numel(), " of shape ", shape_);
  return slice_of_storage(static_cast<std::size_t>(first) * size_of(dtype_), shape, dtype_);
}

Tensor Tensor::slice_as(std::int64_t first, const Shape& shape, DType dtype) const {
  require_defined("Tensor::slice_as");
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  check(dtype_ == DType::uint8 && first >= 0 && first <= numel() && first % size == 0 &&
            shape.numel() <= (numel() - first) / size,
        "Tensor::slice_as: ", shape, " ", dtype, " from byte ", first,
        " on does not lie within the ", dtype_, " ", shape_);
  return slice_of_storage(static_cast<std::size_t>(first), shape, dtype);
}

Tensor Tensor::slice_of_storage(std::size_t offset, const Shape& shape, DType dtype) const {
  Tensor out;
  out.storage_ = std::make_shared<Storage>(
      storage_, offset_ + offset, static_cast<std::size_t>(shape.numel()) * size_of(dtype));
  out.shape_ = shape;
  out.dtype_ = dtype;
  return out;
}

Tensor Tensor::to(Device device) const {
  require_defined("Tensor::to");
  if (device == this->device()) {
    return *this;
  }
  refuse_recorded("Tensor::to", "detach() it first");
  Tensor out = empty(shape_, dtype_, device);
  out.copy_from(*this);
  return out;
}

Tensor Tensor::to(DType dtype) const {
  require_defined("Tensor::to");
  if (dtype == dtype_) {
    return *this;
  }
  refuse_recorded("Tensor::to", "detach() it first");
  const Tensor source = to(Device::cpu());
  Tensor out = empty(shape_, dtype);
  with_type(dtype_, [&]<class From>(From) {
    with_type(dtype, [&]<class To>(To) {
      std::transform(source.raw<From>(), source.raw<From>() + numel(), out.raw<To>(),
                     convert<To, From>);
    });
  });
  return out.to(device());
}

Tensor Tensor::clone() const {
  require_defined("Tensor::clone");
  refuse_recorded("Tensor::clone", "detach() it first");
  Tensor out = empty(shape_, dtype_, device());
  out.copy_from(*this);
  return out;
}

Tensor Tensor::detach() const {
  Tensor out;
  out.storage_ = storage_;
  out.offset_ = offset_;
  out.shape_ = shape_;
  out.dtype_ = dtype_;
  out.slot_ = {.tape = 0, .index = TapeSlot::detached};
  return out;
}

Tensor& Tensor::set_requires_grad(bool required) {
  require_defined("Tensor::set_requires_grad");
  if (!required) {
    leaf_ = nullptr;
    return *this;
  }
  check(is_floating(dtype_), "Tensor::set_requires_grad: a gradient needs a floating type, not ",
        dtype_);
  check(slot_.tape == 0,
        "Tensor::set_requires_grad: the tensor is a value recorded by a tape, not "
        "a leaf; detach() it first");
  if (!leaf_) {
    leaf_ = std::make_shared<Leaf>();
    leaf_->shape = shape_;
    leaf_->dtype = dtype_;
    leaf_->device = device();
  }
  return *this;
}

Tensor Tensor::grad() const {
  if (!leaf_ || !leaf_->fresh) {
    return {};
  }
  leaf_->settle();
  return leaf_->grad;
}

void Tensor::clear_grad() {
  if (leaf_) {
    leaf_->drop();
  }
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) {
    return out << "Tensor undefined";
  }
  out << "Tensor " << tensor.shape() << ' ' << tensor.dtype() << ' ' << tensor.device() << " {";
  constexpr std::int64_t shown = 8;
  const auto values = tensor.detach().to(DType::float64).to_vector<double>();
  for (std::int64_t i = 0; i < std::min(tensor.numel(), shown); ++i) {
    out << (i == 0 ? "" : ", ") << values[static_cast<std::size_t>(i)];
  }
  return out << (tensor.numel() > shown ? ", ...}" : "}");
}

}  // namespace sinter
