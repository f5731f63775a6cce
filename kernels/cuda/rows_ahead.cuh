// Rows on their way to the kernel of a norm's backward pass, and what stands behind the norm undone
// on the way.
#pragma once

#include <cstdint>
#include <cuda_pipeline_primitives.h>

#include <sinter/kernels/cuda/norm.cuh>

namespace sinter::cuda {

/// How many teams work side by side in a block, each on every so-manieth of its rows. Two large
/// ones share a multiprocessor where a thread's part of a row leaves registers for both: as one
/// block, they have one sum for each column.
template <class T, int threads, int vectors>
inline constexpr int teams_of_block = threads == 32             ? row_block<32> / 32
                                      : vectors* width<T> <= 16 ? 2
                                                                : 1;
template <class T, int threads, int vectors>
inline constexpr int norm_block = threads* teams_of_block<T, threads, vectors>;

/// Rows of x and dy on their way through shared memory while others are worked on, one or two
/// ahead: a team that waits for its row has nothing else to do. Each thread copies what it will
/// read, so there is nobody to wait for. Rows that are too long for it are loaded when their turn
/// comes. What stands behind the norm turns dy to dz, rounded to T, where it lies.
template <class T, int threads, int vectors>
struct Ring {
  static constexpr int block = norm_block<T, threads, vectors>;
  static constexpr int bytes_of_row = 2 * vectors * block * 16;
  static constexpr int most_bytes = 64 << 10;
  static constexpr int ahead = 2 * bytes_of_row <= most_bytes ? 2
                               : bytes_of_row <= most_bytes   ? 1
                                                              : 0;
  template <class Tail>
  static constexpr int bytes = ahead > 0        ? ahead* bytes_of_row
                               : has_tail<Tail> ? bytes_of_row / 2
                                                : 0;
};

template <class T, int threads, int vectors, class Tail>
class RowsAhead {
 public:
  using Row = PackedRow<T, threads, vectors>;

  __device__ RowsAhead(const NormTask<NormBackward<T>, Tail>& call, uint4* ring, std::int64_t first,
                       std::int64_t step, std::int64_t end)
      : call_(call), ring_(ring), step_(step), end_(end) {
    for (int slot = 0; slot < ahead; ++slot) {
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        if (Row::place(v) >= call.columns) {  // nobody copies anything there
          *place(slot, v) = *place(slot, vectors + v) = make_uint4(0, 0, 0, 0);
        }
      }
      ask(first + slot * step, slot);
    }
  }
  /// The vectors of a row, 0 past its end. Rows come one after the other, a step apart.
  __device__ void take(std::int64_t row, float mean, float rstd, Row& x, Row& dz) {
    if constexpr (ahead == 0) {
      const T* const of_x = call_.x + row * call_.columns;
      x = Row(of_x, call_.columns);
      dz = Row(call_.dy + row * call_.columns, call_.columns);
      if constexpr (has_tail<Tail>) {  // room for dz alone; the loop finds x in a cache
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          *place(0, v) = dz.raw[v];
        }
        go_back_through_tail(
            row, mean, rstd, [&](int v) { return load(of_x + Row::place(v)); }, 0);
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          dz.raw[v] = *place(0, v);
        }
      }
    } else {
      __pipeline_wait_prior(ahead - 1);
      if constexpr (has_tail<Tail>) {
        go_back_through_tail(
            row, mean, rstd, [&](int v) { return unpacked<T>(*place(slot_, v)); }, vectors);
      }
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        x.raw[v] = *place(slot_, v);
        dz.raw[v] = *place(slot_, vectors + v);
      }
      ask(row + ahead * step_, slot_);
      slot_ = slot_ + 1 == ahead ? 0 : slot_ + 1;
    }
  }

 private:
  static constexpr int block = Ring<T, threads, vectors>::block;
  static constexpr int ahead = Ring<T, threads, vectors>::ahead;

  __device__ uint4* place(int slot, int vector) const {
    return ring_ + (slot * 2 * vectors + vector) * block + threadIdx.x;
  }
  __device__ void ask(std::int64_t row, int slot) {
    if (row < end_) {
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        const std::int64_t column = Row::place(v);
        if (column < call_.columns) {
          __pipeline_memcpy_async(place(slot, v), call_.x + row * call_.columns + column, 16);
          __pipeline_memcpy_async(place(slot, vectors + v), call_.dy + row * call_.columns + column,
                                  16);
        }
      }
    }
    __pipeline_commit();  // an empty one too, so that they can be counted
  }

  // Vectors of a row from dy to dz, where they lie, by the activation's type.
  template <class X>
  struct GoBack {
    const NormTask<NormBackward<T>, Tail>& call;
    float mean, rstd;
    const X& x;
    uint4* dz;  // of the first vector; the next is so many further on as the block has threads
    std::uint32_t kept;

    template <class A>
    __device__ __forceinline__ void operator()() const {
      const A act = Parameters<A>(call.tail.act.value).activation();
      std::uint32_t left = kept;
#pragma unroll 1
      for (int v = 0; v < vectors && Row::place(v) < call.columns; ++v) {
        const Vector<T> z = z_of(call, Row::place(v), x(v), mean, rstd);
        Vector<T> grad = unpacked<T>(dz[v * block]);
#pragma unroll
        for (int e = 0; e < width<T>; ++e) {
          const Number<T> in(z.value[e]);
          const float slope = slope_at(act, in, act.forward(in));
          const bool flows = (left >> e & 1) != 0 && slope != 0;
          grad.value[e] = flows ? grad.value[e] * call.tail.scale * slope : 0.0f;
        }
        dz[v * block] = packed(grad);
        left >>= width<T>;
      }
    }
  };
  template <class X>
  __device__ void go_back_through_tail(std::int64_t row, float mean, float rstd, const X& x,
                                       int first) {
    static_assert(vectors * width<T> <= 32);
    const std::uint32_t kept =
        kept_of_row<T, threads, vectors>(call_.tail.mask, row * call_.columns, 0);
    tile::with_chosen(call_.tail.act, GoBack<X>{call_, mean, rstd, x, place(slot_, first), kept});
  }

  const NormTask<NormBackward<T>, Tail>& call_;
  uint4* ring_;
  std::int64_t step_, end_;
  int slot_ = 0;
};

}  // namespace sinter::cuda
