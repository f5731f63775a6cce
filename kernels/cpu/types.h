// Small helpers that the CPU kernels share.
#pragma once

#include <sinter/kernels/cpu/kernels.h>
#include <sinter/kernels/ops.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cpu {

/// Calls use(T{}) with T = float or double; the dispatcher lets no other floating type through.
template <class Use>
void with_floating(const char* op, DType dtype, Use use) {
  if (dtype == DType::float32) {
    use(float{});
  } else {
    check(dtype == DType::float64, op, ": expected elements of a floating type, got ", dtype);
    use(double{});
  }
}

template <class T>
const T* raw_or_null(const In& tensor) {
  return tensor->defined() ? tensor->raw<T>() : nullptr;
}

/// The order of sums over rows: the rows of such a group in turn, then the groups' sums in turn.
/// The rounding error grows with the number of groups and the size of one, not with the number of
/// rows.
inline constexpr std::int64_t rows_in_group = 32;

/// Elements that go through several passes while they are in the first-level cache.
inline constexpr std::int64_t run = 2048;

/// An activation of the table with what its kernels need to be called.
template <class T>
struct BoundActivation {
  const ActivationKernels<T>* kernels;
  const void* act;
  math::DropoutMask mask;
  std::uint64_t first;
  Stored stored;

  explicit BoundActivation(const ops::ActivationArgs& args)
      : kernels(
            &cpu::kernels<T>().activations[args.act ? args.act->index() : math::activation_count]),
        act(args.act ? std::visit([](const auto& a) -> const void* { return &a; }, *args.act)
                     : nullptr),
        mask(args.dropout.mask),
        first(args.dropout.first),
        stored(args.stored == DType::float16    ? Stored::as_float16
               : args.stored == DType::bfloat16 ? Stored::as_bfloat16
                                                : Stored::as_computed) {}

  bool is_identity() const {
    return kernels == &cpu::kernels<T>().activations[math::activation_count] && mask.is_identity();
  }
  void forward(std::int64_t begin, const T* x, T* y, std::int64_t n) const {
    kernels->forward(act, mask, first + static_cast<std::uint64_t>(begin), x, y, n);
  }
  void backward(std::int64_t begin, const T* kept, const T* dy, T* dx, std::int64_t n) const {
    kernels->backward(act, mask, first + static_cast<std::uint64_t>(begin), stored, kept, dy, dx,
                      n);
  }
};

}  // namespace sinter::cpu
