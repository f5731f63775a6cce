// One block's tile of a product. Each warp multiplies every so-manieth granule of k for its part of
// the tile; then the warps' partial sums, which lie in shared memory, are added in a fixed order.
#pragma once

#include <sinter/kernels/cuda/tile/fragments.cuh>

namespace sinter::cuda::tile {

/// `m16` and `n8`: fragments of a warp along m and n. A block has `warps_n` warps side by side and
/// `warps_k` that share the granules of k, each with `in_flight` of them on their way.
template <int m16, int n8, int warps_n_, int warps_k_, int in_flight_>
struct Shape {
  static constexpr int lines_a = 2 * m16, lines_b = n8;  // of a lane
  static constexpr int warps_n = warps_n_, warps_k = warps_k_, in_flight = in_flight_;
  static constexpr int warps = warps_n * warps_k, threads = 32 * warps;
  static constexpr int m = 16 * m16, n = 8 * n8 * warps_n;
  /// Runs of four neighbouring columns that a lane has a partial sum of.
  static constexpr int quads = m16 * n8;
  /// Those that a lane adds up and finishes.
  static constexpr int quads_to_finish = (quads + warps_k - 1) / warps_k;
  static constexpr int partial_floats = warps * quads * 128;
  /// Two sums for one element, where one would leave the tensor cores waiting for it.
  static constexpr int chains = quads <= 2 ? 2 : 1;
  /// Registers of operands and sums, and whether any are left for what a kernel reads beside them.
  static constexpr int registers = 4 * in_flight * (lines_a + lines_b) + 4 * quads * chains;
  static constexpr bool has_registers = threads * (registers + 64) <= 1 << 16;
  /// As many threads as a kernel's registers are to suffice for: a block of few warps leaves some
  /// of them to one of the next kernel.
  static constexpr int bounded_threads = threads > 256 ? threads : 384;
};

/// Where a thread stands in its block.
template <class S>
struct Place {
  int lane, group, quarter;  // of the warp; lane / 4 and lane % 4
  int warp_k, warp_n;
  int m, n;  // the first line of a and of b of this lane

  __device__ __forceinline__ Place(int tile_m, int tile_n)
      // The same for all lanes, and the compiler is to know it.
      : Place(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0), tile_m * S::m,
              tile_n * S::n) {}
  /// For a grid of tiles().
  static __device__ __forceinline__ Place of_grid() {
    return Place(static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
  }
  /// In a tile that begins at the given lines, as that warp.
  __device__ __forceinline__ Place(int warp, int first_m, int first_n)
      : lane(static_cast<int>(threadIdx.x % 32)),
        group(lane / 4),
        quarter(lane % 4),
        warp_k(warp % S::warps_k),
        warp_n(warp / S::warps_k),
        m(first_m + S::lines_a * group),
        n(first_n + warp_n * (S::n / S::warps_n) + S::lines_b * group) {}

  /// The quad that this lane finishes as its i-th, or none.
  __device__ __forceinline__ int quad(int i) const { return warp_k + i * S::warps_k; }
  __device__ __forceinline__ bool has(int i) const {
    return S::quads % S::warps_k == 0 || quad(i) < S::quads;
  }
  __device__ __forceinline__ int row(int i) const { return m + quad(i) / (S::lines_b / 2); }
  __device__ __forceinline__ int column(int i) const {
    return n - S::lines_b * group + 2 * S::lines_b * quarter + quad(i) % (S::lines_b / 2) * 4;
  }
};

/// What of a kernel's arguments the kernel before it did not write, so that it may be read while
/// that one still runs. Without `rest` the kernel waits before it does anything.
struct Settled {
  bool a, b, rest;
};

enum class Stage : std::uint8_t { before_wait, after_wait, after_product };

/// When what a kernel reads beside its operands is loaded: while operands are on their way, if
/// there are registers for it, or while the warps wait for each other.
template <class S>
inline constexpr Stage loads_at = S::has_registers ? Stage::before_wait : Stage::after_product;
/// The same for what the kernel before has written.
template <class S>
inline constexpr Stage loads_new_at = S::has_registers ? Stage::after_wait : Stage::after_product;

/// When masks are drawn: before the wait, if the kernel starts early enough to have time for it, as
/// one whose blocks fit beside those of the kernel before does; else while operands are on their
/// way.
template <class S>
inline constexpr Stage draws_at = S::has_registers ? Stage::before_wait : Stage::after_wait;

/// A warp's partial sums.
template <class S>
class Partial {
 public:
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int chain = 0; chain < S::chains; ++chain) {
      tile::clear(sum_[chain]);
    }
    seen_[0] = seen_[1] = 0;
  }

  /// Whether a NaN may have gone in, or an infinity.
  __device__ __forceinline__ bool is_doubtful() const {
    const float seen = seen_[0] + seen_[1];
    return !(seen == seen);
  }

  __device__ __forceinline__ void add(const float (&a)[S::lines_a][4],
                                      const float (&b)[S::lines_b][4]) {
    look(a, seen_[0]);
    look(b, seen_[1]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t right[S::lines_b][2];
#pragma unroll
      for (int j = 0; j < S::lines_b; ++j) {
        right[j][0] = to_tf32(b[j][2 * half]);
        right[j][1] = to_tf32(b[j][2 * half + 1]);
      }
#pragma unroll
      for (int i = 0; i < S::lines_a / 2; ++i) {
        const std::uint32_t left[4] = {to_tf32(a[2 * i][2 * half]), to_tf32(a[2 * i + 1][2 * half]),
                                       to_tf32(a[2 * i][2 * half + 1]),
                                       to_tf32(a[2 * i + 1][2 * half + 1])};
#pragma unroll
        for (int j = 0; j < S::lines_b; ++j) {
          multiply_add(sum_[half % S::chains][i * S::lines_b + j], left, right[j]);
        }
      }
    }
  }

  /// Of this lane's lines of a and its 2 * lines_b columns.
  __device__ __forceinline__ float value(int line, int column) const {
    const int fragment = line / 2 * S::lines_b + column % S::lines_b;
    const int place = line % 2 * 2 + column / S::lines_b;
    const float v = sum_[0][fragment][place];
    return S::chains == 2 ? v + sum_[S::chains - 1][fragment][place] : v;
  }
  /// Quad q: four columns of one line of a.
  __device__ __forceinline__ float4 quad(int q) const {
    const int line = q / (S::lines_b / 2), column = q % (S::lines_b / 2) * 4;
    return make_float4(value(line, column), value(line, column + 1), value(line, column + 2),
                       value(line, column + 3));
  }

 private:
  // One multiply-add for two elements, on units that are idle otherwise.
  template <int n>
  static __device__ __forceinline__ void look(const float (&x)[n][4], float& seen) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      seen = fmaf(x[i][0], x[i][1], seen);
      seen = fmaf(x[i][2], x[i][3], seen);
    }
  }

  float sum_[S::chains][S::quads][4];
  float seen_[2];
};

/// Nothing but the product.
struct NoSums {
  __device__ void clear() {}
  template <int n>
  __device__ void add(const float (&)[n][4]) {}
};

/// Also the sums over k of the lines of a.
template <class S>
struct LineSums {
  float sum[S::lines_a];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& s : sum) {
      s = 0;
    }
  }
  __device__ __forceinline__ void add(const float (&a)[S::lines_a][4]) {
#pragma unroll
    for (int i = 0; i < S::lines_a; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[i] += a[i][j];
      }
    }
  }
  /// Into room for warps_k * m floats, by warps with warp_n = 0.
  __device__ __forceinline__ void put(const Place<S>& at, float* room) const {
#pragma unroll
    for (int i = 0; i < S::lines_a; ++i) {
      float s = sum[i];
      s += __shfl_xor_sync(0xffffffffu, s, 1);
      s += __shfl_xor_sync(0xffffffffu, s, 2);
      if (at.quarter == 0) {
        room[at.warp_k * S::m + S::lines_a * at.group + i] = s;
      }
    }
  }
  static __device__ __forceinline__ float total(const float* room, int line) {
    float s = 0;
#pragma unroll
    for (int k = 0; k < S::warps_k; ++k) {
      s += room[k * S::m + line];
    }
    return s;
  }
};

namespace detail {

// As pass(), granule after granule, with every NaN made one that the products keep. Rare enough to
// do all again.
template <class S, class A, class B, class Sums>
__device__ __forceinline__ void careful_pass(const Place<S>& at, A a, B b, int depth,
                                             Partial<S>& partial, Sums& sums) {
  constexpr int step = S::warps_k * granule;
  partial.clear();
  sums.clear();
#pragma unroll 1
  for (int k = at.warp_k * granule; k < depth; k += step) {
    float in_a[S::lines_a][4], in_b[S::lines_b][4];
    clear(in_a);
    clear(in_b);
    a.load(in_a, 0);
    b.load(in_b, 0);
    a.advance(step);
    b.advance(step);
    quieten(in_a);
    quieten(in_b);
    partial.add(in_a, in_b);
    sums.add(in_a);
  }
}

template <int in_flight, class S, class A, class B, class Sums, class Prefetch>
__device__ __forceinline__ void pass(const Place<S>& at, A a, B b, int depth,
                                     const Settled& settled, Partial<S>& partial, Sums& sums,
                                     Prefetch& prefetch) {
  constexpr int step = S::warps_k * granule;
  float in_a[in_flight][S::lines_a][4], in_b[in_flight][S::lines_b][4];
  if (depth % granule != 0) {
#pragma unroll
    for (int d = 0; d < in_flight; ++d) {
      clear(in_a[d]);
      clear(in_b[d]);
    }
  }
  partial.clear();
  sums.clear();
  const auto load = [&](bool of_a, bool of_b) {
    if (of_b) {
#pragma unroll
      for (int d = 0; d < in_flight; ++d) {
        b.load(in_b[d], d * step);
      }
    }
    if (of_a) {
#pragma unroll
      for (int d = 0; d < in_flight; ++d) {
        a.load(in_a[d], d * step);
      }
    }
  };
  if (!settled.rest) {
    wait_for_previous();
  }
  load(settled.a, settled.b);
  prefetch(Stage::before_wait);
  wait_for_previous();
  load(!settled.a, !settled.b);
  prefetch(Stage::after_wait);
#pragma unroll 1
  for (int first = at.warp_k * granule; first < depth; first += in_flight * step) {
    a.advance(in_flight * step);
    b.advance(in_flight * step);
#pragma unroll
    for (int d = 0; d < in_flight; ++d) {
      const int k = first + d * step;
      if (k >= depth) {
        break;
      }
      partial.add(in_a[d], in_b[d]);
      sums.add(in_a[d]);
      const int next = k + in_flight * step;
      if (next < depth) {
        if (next + granule > depth) {
          clear(in_a[d]);
          clear(in_b[d]);
        }
        a.load(in_a[d], d * step);
        b.load(in_b[d], d * step);
      }
    }
  }
}

}  // namespace detail

/// Adds up this warp's part of the tile and puts it into `room`, of S::partial_floats.
/// prefetch(stage) is called at each stage: what the rest of the kernel needs is loaded there.
template <class S, Major a_major, bool a_vectors, Major b_major, bool b_vectors, class Sums,
          class Prefetch>
__device__ __forceinline__ void multiply(const Place<S>& at, const Matrix& a, const Matrix& b,
                                         const Settled& settled, Sums& sums, float* room,
                                         Prefetch prefetch) {
  const int k = at.warp_k * granule + 4 * at.quarter;
  const Operand<S::lines_a, a_major, a_vectors> left(a, at.m, k);
  const Operand<S::lines_b, b_major, b_vectors> right(b, at.n, k);
  // Loads one by one need registers for many addresses.
  constexpr int in_flight = a_vectors && b_vectors ? S::in_flight : (S::in_flight + 1) / 2;
  Partial<S> partial;
  detail::pass<in_flight>(at, left, right, a.depth, settled, partial, sums, prefetch);
  if (__any_sync(0xffffffffu, partial.is_doubtful())) {
    detail::careful_pass(at, left, right, a.depth, partial, sums);
  }
  float4* to = reinterpret_cast<float4*>(room);
#pragma unroll
  for (int q = 0; q < S::quads; ++q) {
    to[((at.warp_n * S::warps_k + at.warp_k) * S::quads + q) * 32 + at.lane] = partial.quad(q);
  }
  prefetch(Stage::after_product);
}

/// The sum over all warps of this lane's quad q; after a barrier.
template <class S>
__device__ __forceinline__ float4 total(const Place<S>& at, const float* room, int q) {
  const float4* from = reinterpret_cast<const float4*>(room) +
                       (at.warp_n * S::warps_k * S::quads + q) * 32 + at.lane;
  float4 sum = from[0];
#pragma unroll
  for (int k = 1; k < S::warps_k; ++k) {
    const float4 part = from[k * S::quads * 32];
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
  return sum;
}

}  // namespace sinter::cuda::tile
