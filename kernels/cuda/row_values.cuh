// Rows of matrices that stay in the registers of their team while a kernel works on them, so that
// each is read once. Rows that are too long for that, or do not lie on vectors, are read anew each
// time, from caches where they fit.
#pragma once

#include <cstdint>
#include <type_traits>

#include <sinter/kernels/cuda/rows.cuh>
#include <sinter/kernels/cuda/teams.cuh>
#include <sinter/kernels/cuda/vectors.cuh>

namespace sinter::cuda {

/// A row for a team of so many threads, each of which holds so many vectors of it; 0: none.
template <class T, int team, int held>
class RowValues {
 public:
  static constexpr int threads = team;
  static constexpr int vectors = held;
  static constexpr int per_vector = width<T>;

  /// Null: every element is `otherwise`.
  __device__ RowValues(const T* x, std::int64_t columns, float otherwise = 0)
      : x_(x), columns_(columns), otherwise_(otherwise) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      if (x == nullptr) {
#pragma unroll
        for (float& value : vector[v].value) {
          value = otherwise;
        }
      } else if (place(v) < columns) {
        vector[v] = load(x + place(v));
      }
    }
  }

  __device__ std::int64_t columns() const { return columns_; }
  /// The column at which a vector of this thread begins.
  __device__ static std::int64_t place(int v) {
    return (static_cast<std::int64_t>(v) * threads + Team<threads>::rank()) * per_vector;
  }
  __device__ const Vector<T>& vector_at(int v) const { return vector[v]; }
  __device__ float read(std::int64_t column) const {
    return x_ == nullptr ? otherwise_ : to_float(x_[column]);
  }

  Vector<T> vector[vectors == 0 ? 1 : vectors] = {};

 private:
  const T* x_;
  std::int64_t columns_;
  float otherwise_;
};

/// The same for rows that are only read: vectors stay as they lie in memory, where 16-bit elements
/// take half the registers. Columns past the end are 0, unless all are `otherwise`.
template <class T, int team, int held>
class PackedRow {
 public:
  static constexpr int threads = team;
  static constexpr int vectors = held;
  static constexpr int per_vector = width<T>;

  PackedRow() = default;
  __device__ PackedRow(const T* x, std::int64_t columns, float otherwise = 0) : columns_(columns) {
    Vector<T> all;
#pragma unroll
    for (float& value : all.value) {
      value = x == nullptr ? otherwise : 0;
    }
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      raw[v] = x != nullptr && place(v) < columns ? load_raw(x + place(v)) : packed(all);
    }
  }

  __device__ std::int64_t columns() const { return columns_; }
  __device__ static std::int64_t place(int v) { return RowValues<T, team, held>::place(v); }
  __device__ Vector<T> vector_at(int v) const { return unpacked<T>(raw[v]); }
  uint4 raw[vectors];

 private:
  std::int64_t columns_ = 0;
};

/// Calls f(column, its value in each of the rows) for each column of this thread.
template <class F, class First, class... More>
__device__ __forceinline__ void each_column(F f, const First& row, const More&... more) {
  if constexpr (First::vectors > 0) {
#pragma unroll
    for (int v = 0; v < First::vectors; ++v) {
      const std::int64_t at = First::place(v);
      if (at < row.columns()) {
#pragma unroll
        for (int e = 0; e < First::per_vector; ++e) {
          f(at + e, row.vector_at(v).value[e], more.vector_at(v).value[e]...);
        }
      }
    }
  } else {
    for (std::int64_t j = Team<First::threads>::rank(); j < row.columns(); j += First::threads) {
      f(j, row.read(j), more.read(j)...);
    }
  }
}

/// The largest of sign * x; -inf where there is no number.
template <class Row>
__device__ float largest(const Row& row, float sign) {
  float found = -INFINITY;
  each_column([&](std::int64_t, float x) { found = fmaxf(found, sign * x); }, row);
  return Team<Row::threads>::all(found, [](float a, float b) { return fmaxf(a, b); });
}

/// Stores f(column, its value in each of the rows) in row y.
template <class T, class F, class First, class... More>
__device__ __forceinline__ void store_row(T* y, F f, const First& row, const More&... more) {
  if constexpr (First::vectors > 0) {
#pragma unroll
    for (int v = 0; v < First::vectors; ++v) {
      const std::int64_t at = First::place(v);
      if (at < row.columns()) {
        Vector<T> out;
#pragma unroll
        for (int e = 0; e < First::per_vector; ++e) {
          out.value[e] = f(at + e, row.vector_at(v).value[e], more.vector_at(v).value[e]...);
        }
        store(y + at, out);
      }
    }
  } else {
    for (std::int64_t j = Team<First::threads>::rank(); j < row.columns(); j += First::threads) {
      y[j] = from_float<T>(f(j, row.read(j), more.read(j)...));
    }
  }
}

/// Whether rows of so many columns lie on vectors, all of them; null does.
template <class T, class... P>
bool rows_on_vectors_of(std::int64_t columns, const P*... x) {
  return columns % width<T> == 0 && ((reinterpret_cast<std::uintptr_t>(x) % 16 == 0) && ...);
}

/// Vectors that a thread holds of a row at most: more elements than these do not stay in registers
/// where a kernel works on several rows at once.
template <class T>
inline constexpr int most_vectors = 32 / width<T>;

/// Whether rows of so many columns, on vectors, stay in the registers of a team.
template <class T>
constexpr bool fits_team(std::int64_t columns) {
  return columns <= most_vectors<T> * width<T> * 256;
}

/// Calls f.template operator()<threads, vectors>() with what suits rows of so many columns.
template <class T, class F>
void with_row_values(std::int64_t columns, bool on_vectors, F f) {
  constexpr int few = 16 / width<T>, most = most_vectors<T>;
  const std::int64_t vectors = columns / width<T>;
  if (!on_vectors || !fits_team<T>(columns)) {
    with_team(columns, [&]<int threads>(std::integral_constant<int, threads>) {
      f.template operator()<threads, 0>();
    });
  } else if (vectors <= few / 2 * 32) {
    f.template operator()<32, few / 2>();
  } else if (vectors <= most * 32) {
    f.template operator()<32, most>();
  } else if (vectors <= few * 256) {
    f.template operator()<256, few>();
  } else {
    f.template operator()<256, most>();
  }
}

/// Of the teams of a launch, this thread's.
template <int threads>
__device__ std::int64_t my_team() {
  constexpr int teams = row_block<threads> / threads;
  return static_cast<std::int64_t>(blockIdx.x) * teams + Team<threads>::index();
}
/// Blocks for so many teams.
template <int threads>
unsigned blocks_of_teams(std::int64_t count) {
  constexpr std::int64_t teams = row_block<threads> / threads;
  return static_cast<unsigned>((count + teams - 1) / teams);
}

}  // namespace sinter::cuda
