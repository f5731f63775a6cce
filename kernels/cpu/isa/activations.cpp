// Activation and dropout in one pass, for every activation of the list.
#include <sinter/kernels/cpu/isa/dropout_block.h>
#include <sinter/kernels/cpu/isa/lanes.h>
#include <sinter/kernels/cpu/isa/path.h>
#include <sinter/runtime/dtype.h>

namespace sinter::cpu::SINTER_CPU_PATH {
namespace {

// One copy of Philox for all activations: inlined into each, it is most of the library's size.
[[gnu::noinline]] void draw(const math::DropoutMask& mask, std::uint64_t first, std::int64_t n,
                            math::LaneBlock& block) {
  math::draw_lanes(mask, first, static_cast<int>(n), block);
}

// f(x), in float64 where float32 arithmetic would not do for A.
template <class A, class V, class F>
SINTER_HOST_INLINE V compute(V x, F f) {
  if constexpr (A::wide && math::is_float32<V>) {
    return in_double(x, f);
  } else {
    return f(x);
  }
}

// `value` of elements e, e + 1, ... of the block where they are kept, else 0.
template <class V>
SINTER_HOST_INLINE V masked(const math::LaneBlock& block, std::int64_t e, V value) {
  if constexpr (math::lanes<V> == 1) {
    return block.lane[e] >= block.threshold ? value : V(0);
  } else {
    math::Vector<std::uint16_t, 2 * math::lanes<V>> lane;  // the room ends beyond the last vector
    std::memcpy(&lane, block.lane + e, sizeof lane);
    const auto lane32 = __builtin_convertvector(lane, math::Bits<V>);
    return math::select(lane32 >= block.threshold, value, V{});
  }
}

// Calls body(begin, count, block) for the blocks of n elements, drawn into the first-level cache
// and used right there.
template <class Body>
SINTER_HOST_INLINE void for_blocks(const math::DropoutMask& mask, std::uint64_t first,
                                   std::int64_t n, Body body) {
  math::LaneBlock block;
  constexpr std::int64_t capacity = math::LaneBlock::capacity;
  for (std::int64_t begin = 0; begin < n; begin += capacity) {
    const std::int64_t count = n - begin < capacity ? n - begin : capacity;
    draw(mask, first + static_cast<std::uint64_t>(begin), count, block);
    body(begin, count, block);
  }
}

template <class T>
SINTER_HOST_INLINE void clear(T* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = T(0);
  }
}

template <class A, class T>
void forward(const void* untyped, const math::DropoutMask& mask, std::uint64_t first, const T* x,
             T* y, std::int64_t n) {
  using V = Lanes<T>;
  const A act = *static_cast<const A*>(untyped);
  const auto value = [&act](V v) {
    return compute<A>(v, [&act](auto w) { return act.forward(w); });
  };
  if (mask.is_identity()) {
    for_lanes<V>(n,
                 [&](std::int64_t i, auto how) { store(y + i, value(load<V>(x + i, how)), how); });
    return;
  }
  if (mask.drops_everything()) {
    clear(y, n);
    return;
  }
  const V scale = math::splat<V>(mask.scale());
  for_blocks(mask, first, n,
             [&](std::int64_t begin, std::int64_t count, const math::LaneBlock& block) {
               for_lanes<V>(count, [&](std::int64_t i, auto how) {
                 const V scaled = value(load<V>(x + begin + i, how)) * scale;
                 store(y + begin + i, masked(block, i, scaled), how);
               });
             });
}

// A kept output without the scale of dropout, and a bound of the activation as it comes back from
// there: scaled and stored as the output was, then unscaled as the output is.
template <class T>
struct AsKept {
  T scale;
  T unscale;
  Stored stored;

  template <class V>
  SINTER_HOST_INLINE V operator()(V bound) const {
    T value;
    if constexpr (math::lanes<V> == 1) {
      value = static_cast<T>(bound) * scale;
    } else {
      value = static_cast<T>(bound[0]) * scale;  // a bound is the same in all lanes
    }
    if (stored == Stored::as_float16) {
      value = static_cast<T>(static_cast<float>(float16(static_cast<float>(value))));
    } else if (stored == Stored::as_bfloat16) {
      value = static_cast<T>(static_cast<float>(bfloat16(static_cast<float>(value))));
    }
    return math::splat<V>(static_cast<double>(value * unscale));
  }
};

template <class A, class T>
SINTER_HOST_INLINE Lanes<T> derivative(const A& act, Lanes<T> kept, const AsKept<T>& as_kept) {
  if constexpr (math::derives_from_input<A>) {
    return compute<A>(kept, [&](auto x) { return act.derivative_from_input(x); });
  } else {
    return compute<A>(kept * as_kept.unscale,
                      [&](auto y) { return math::derivative_from_output(act, y, as_kept); });
  }
}

// Where the function is flat the gradient is exactly 0, whatever comes in.
template <class V>
SINTER_HOST_INLINE V chain(V dy, V derivative) {
  return math::select(derivative == V{}, V{}, dy * derivative);
}

template <class A, class T>
void backward(const void* untyped, const math::DropoutMask& mask, std::uint64_t first,
              Stored stored, const T* kept, const T* dy, T* dx, std::int64_t n) {
  using V = Lanes<T>;
  const A act = *static_cast<const A*>(untyped);
  const auto pass = [&](const AsKept<T>& as_kept, std::int64_t i, auto how) {
    const V slope = derivative<A, T>(act, load<V>(kept + i, how), as_kept);
    return chain(load<V>(dy + i, how) * as_kept.scale, slope);
  };
  if (mask.drops_everything()) {  // its scale is 0, by which no output can be unscaled
    clear(dx, n);
    return;
  }
  const AsKept<T> as_kept{static_cast<T>(mask.scale()), static_cast<T>(mask.unscale()), stored};
  if (mask.is_identity() || math::drops_show(act)) {
    for_lanes<V>(n, [&](std::int64_t i, auto how) { store(dx + i, pass(as_kept, i, how), how); });
    return;
  }
  for_blocks(mask, first, n,
             [&](std::int64_t begin, std::int64_t count, const math::LaneBlock& block) {
               for_lanes<V>(count, [&](std::int64_t i, auto how) {
                 store(dx + begin + i, masked(block, i, pass(as_kept, begin + i, how)), how);
               });
             });
}

}  // namespace

template <class T>
void set_activations(Kernels<T>& table) {
  ActivationKernels<T>* row = table.activations;
#define SINTER_ROW(Type, function) *row++ = {forward<math::Type, T>, backward<math::Type, T>};
  SINTER_ACTIVATIONS(SINTER_ROW)
#undef SINTER_ROW
  *row = {forward<math::Identity, T>, backward<math::Identity, T>};
}

template void set_activations(Kernels<float>& table);
template void set_activations(Kernels<double>& table);

}  // namespace sinter::cpu::SINTER_CPU_PATH
