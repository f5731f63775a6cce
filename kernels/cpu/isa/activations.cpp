// Activation and dropout in one pass, for every activation of the list.
#include <sinter/kernels/cpu/isa/path.h>
#include <sinter/kernels/math/dropout_block.h>
#include <sinter/runtime/dtype.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

// Keep flags are drawn for a block at a time into the first-level cache and used right there.
constexpr std::int64_t block = 1024;

// One copy of Philox for all activations: inlined into each, it is most of the library's size.
[[gnu::noinline]] void draw(const math::DropoutMask& mask, std::uint64_t first, std::int64_t n,
                            std::uint8_t* keep) {
  math::keep_block(mask, first, static_cast<std::size_t>(n), keep);
}

/// The activation of a pass without one.
struct Identity {
  static constexpr bool wide = false;
  template <class V>
  SINTER_HD V forward(V x) const {
    return x;
  }
  template <class V>
  SINTER_HD V derivative_from_output(V) const {
    return math::splat<V>(1);
  }
};

// The type in which A is evaluated for tensors of T.
template <class A, class T>
struct Arithmetic {
  using type = T;
};
template <class A>
requires(A::wide) struct Arithmetic<A, float> {
  using type = double;
};

template <class A, class T>
SINTER_HD T forward_one(const A& act, T x) {
  using V = typename Arithmetic<A, T>::type;
  return static_cast<T>(act.forward(static_cast<V>(x)));
}

template <class A, class T>
void forward(const void* untyped, const math::DropoutMask& mask, std::uint64_t first, const T* x,
             T* y, std::int64_t n) {
  const A act = *static_cast<const A*>(untyped);
  if (mask.is_identity()) {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = forward_one(act, x[i]);
    }
    return;
  }
  const T scale = static_cast<T>(mask.scale());
  std::uint8_t keep[block];
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t count = n - begin < block ? n - begin : block;
    draw(mask, first + static_cast<std::uint64_t>(begin), count, keep);
    const T* in = x + begin;
    T* out = y + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      const T value = forward_one(act, in[i]) * scale;
      out[i] = keep[i] != 0 ? value : T(0);
    }
  }
}

// A bound of the activation as it comes back from the kept output: scaled and stored as the output
// was, then unscaled as the output is.
template <class T>
struct AsKept {
  T scale;
  Stored stored;

  template <class V>
  SINTER_HD V operator()(V bound) const {
    T value = static_cast<T>(bound) * scale;
    if (stored == Stored::as_float16) {
      value = static_cast<T>(static_cast<float>(float16(static_cast<float>(value))));
    } else if (stored == Stored::as_bfloat16) {
      value = static_cast<T>(static_cast<float>(bfloat16(static_cast<float>(value))));
    }
    return static_cast<V>(value / scale);
  }
};

template <class A, class T>
SINTER_HD T derivative_one(const A& act, T kept, const AsKept<T>& as_kept) {
  using V = typename Arithmetic<A, T>::type;
  if constexpr (math::derives_from_input<A>) {
    return static_cast<T>(act.derivative_from_input(static_cast<V>(kept)));
  } else {
    return static_cast<T>(
        math::derivative_from_output(act, static_cast<V>(kept / as_kept.scale), as_kept));
  }
}

// Where the function is flat the gradient is exactly 0, whatever comes in.
template <class T>
SINTER_HD T chain(T dy, T derivative) {
  return derivative == T(0) ? T(0) : dy * derivative;
}

template <class A, class T>
void backward(const void* untyped, const math::DropoutMask& mask, std::uint64_t first,
              Stored stored, const T* kept, const T* dy, T* dx, std::int64_t n) {
  const A act = *static_cast<const A*>(untyped);
  if (mask.is_identity()) {
    const AsKept<T> as_kept{T(1), stored};
    for (std::int64_t i = 0; i < n; ++i) {
      dx[i] = chain(dy[i], derivative_one(act, kept[i], as_kept));
    }
    return;
  }
  if (mask.drops_everything()) {  // its scale is 0, by which no output can be unscaled
    for (std::int64_t i = 0; i < n; ++i) {
      dx[i] = T(0);
    }
    return;
  }
  const AsKept<T> as_kept{static_cast<T>(mask.scale()), stored};
  std::uint8_t keep[block];
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t count = n - begin < block ? n - begin : block;
    draw(mask, first + static_cast<std::uint64_t>(begin), count, keep);
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const T value = chain(dy[i] * as_kept.scale, derivative_one(act, kept[i], as_kept));
      dx[i] = keep[i - begin] != 0 ? value : T(0);
    }
  }
}

}  // namespace

template <class T>
void set_activations(Kernels<T>& table) {
  ActivationKernels<T>* row = table.activations;
#define SINTER_ROW(Type, function) *row++ = {forward<math::Type, T>, backward<math::Type, T>};
  SINTER_ACTIVATIONS(SINTER_ROW)
#undef SINTER_ROW
  *row = {forward<Identity, T>, backward<Identity, T>};
}

template void set_activations(Kernels<float>& table);
template void set_activations(Kernels<double>& table);

}  // namespace sinter::cpu::SINTER_CPU_PATH
