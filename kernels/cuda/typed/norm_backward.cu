// Gradients of layer and RMS normalisation, and of what stands behind them. Each block has some
// rows, so that it adds up the gradients of weight and bias on the way; another kernel adds up the
// blocks.
#include <cuda_pipeline_primitives.h>

#include <sinter/kernels/cuda/norm.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

// How many teams work side by side in a block, each on every so-manieth of its rows. Two large ones
// share a multiprocessor where a thread's part of a row leaves registers for both: as one block,
// they have one sum for each column.
template <class T, int threads, int vectors>
inline constexpr int teams_of_block = threads == 32                  ? row_block<32> / 32
                                      : vectors * width<T> <= 16 ? 2
                                                                   : 1;
template <class T, int threads, int vectors>
inline constexpr int norm_block = threads * teams_of_block<T, threads, vectors>;

// Rows of x and dy on their way through shared memory while others are worked on, one or two ahead:
// a team that waits for its row has nothing else to do. Each thread copies what it will read, so
// there is nobody to wait for. Rows that are too long for it are loaded when their turn comes. What
// stands behind the norm turns dy to dz, rounded to T, where it lies.
template <class T, int threads, int vectors>
struct Ring {
  static constexpr int block = norm_block<T, threads, vectors>;
  static constexpr int bytes_of_row = 2 * vectors * block * 16;
  static constexpr int most_bytes = 64 << 10;
  static constexpr int ahead = 2 * bytes_of_row <= most_bytes ? 2
                               : bytes_of_row <= most_bytes   ? 1
                                                              : 0;
  template <class Tail>
  static constexpr int bytes = ahead > 0        ? ahead * bytes_of_row
                               : has_tail<Tail> ? bytes_of_row / 2
                                                : 0;
};

template <class T, int threads, int vectors, class Tail>
class RowsAhead {
 public:
  using Row = PackedRow<T, threads, vectors>;

  __device__ RowsAhead(const NormTask<NormBackward<T>, Tail>& call, uint4* ring,
                       std::int64_t first, std::int64_t step, std::int64_t end)
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
    tile::with_chosen(call_.tail.act,
                      GoBack<X>{call_, mean, rstd, x, place(slot_, first), kept});
  }

  const NormTask<NormBackward<T>, Tail>& call_;
  uint4* ring_;
  std::int64_t step_, end_;
  int slot_ = 0;
};

// dx of a row, from n = (x - mean) rstd and g = dz w: rstd (g - mean of g - n * mean of g n).
struct RowGradient {
  float rstd, of_g, of_n;

  __device__ RowGradient(float2 sums, float rstd, float over_columns, bool is_centred)
      : rstd(rstd),
        of_g(is_centred ? sums.x * over_columns * rstd : 0.0f),
        of_n(sums.y * over_columns * rstd) {}
  __device__ float at(float n, float g) const { return fmaf(-n, of_n, fmaf(g, rstd, -of_g)); }
};

template <class T>
__device__ float2 mean_and_rstd(const NormBackward<T>& call, std::int64_t row) {
  return {call.mean == nullptr ? 0.0f : call.mean[row], call.rstd[row]};
}

// The sums of a block's teams for their columns, one after the other, into the first one's. `room`
// holds a thread's vectors for all teams but that.
template <class T, int threads, int teams, int vectors>
__device__ void add_up_teams(float (&sums)[vectors][width<T>], float* room) {
  const int team = Team<threads>::index(), rank = Team<threads>::rank();
  const auto place = [&](int of_team, int v, int e) {
    return reinterpret_cast<float4*>(room) +
           (((of_team - 1) * vectors + v) * (width<T> / 4) + e / 4) * threads + rank;
  };
  __syncthreads();  // until others are done with what lay there
  if (team > 0) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
#pragma unroll
      for (int e = 0; e < width<T>; e += 4) {
        *place(team, v, e) =
            make_float4(sums[v][e], sums[v][e + 1], sums[v][e + 2], sums[v][e + 3]);
      }
    }
  }
  __syncthreads();
  if (team == 0) {
#pragma unroll
    for (int other = 1; other < teams; ++other) {
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
#pragma unroll
        for (int e = 0; e < width<T>; e += 4) {
          const float4 theirs = *place(other, v, e);
          sums[v][e] += theirs.x;
          sums[v][e + 1] += theirs.y;
          sums[v][e + 2] += theirs.z;
          sums[v][e + 3] += theirs.w;
        }
      }
    }
  }
}

template <class T, int threads, int vectors, class Tail>
__global__ void __launch_bounds__(norm_block<T, threads, vectors>)
    norm_backward_kernel(const NormTask<NormBackward<T>, Tail> call) {
  using Row = PackedRow<T, threads, vectors>;
  constexpr int teams = teams_of_block<T, threads, vectors>;
  extern __shared__ uint4 ring[];
  const std::int64_t begin = blockIdx.x * call.rows_of_group;
  const std::int64_t end = min(call.rows, begin + call.rows_of_group);
  const std::int64_t first = begin + Team<threads>::index();
  float dw[vectors][width<T>] = {}, db[vectors][width<T>] = {};
  RowsAhead<T, threads, vectors, Tail> rows(call, ring, first, teams, end);
  const Row weight(call.weight, call.columns, 1);
  float2 next = first < end ? mean_and_rstd(call, first) : float2{};
  int turn = 0;
#pragma unroll 1
  for (std::int64_t row = first; row < end; row += teams, turn ^= 1) {
    const float mean = next.x, rstd = next.y;
    if (row + teams < end) {
      next = mean_and_rstd(call, row + teams);
    }
    Row of_x, of_dz;
    rows.take(row, mean, rstd, of_x, of_dz);
    float n[vectors][width<T>], g[vectors][width<T>];
    float sum_g = 0, sum_g_n = 0;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      const Vector<T> x = of_x.vector_at(v), dz = of_dz.vector_at(v), w = weight.vector_at(v);
#pragma unroll
      for (int e = 0; e < width<T>; ++e) {
        n[v][e] = (x.value[e] - mean) * rstd;
        g[v][e] = dz.value[e] * w.value[e];
        sum_g += g[v][e];
        sum_g_n = fmaf(g[v][e], n[v][e], sum_g_n);
        dw[v][e] = fmaf(dz.value[e], n[v][e], dw[v][e]);
        db[v][e] += dz.value[e];
      }
    }
    const float2 sums = Team<threads>::template sums_in_turn<teams>(turn, sum_g, sum_g_n);
    if (call.dx == nullptr) {
      continue;
    }
    const RowGradient gradient(sums, rstd, call.over_columns, call.mean != nullptr);
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      Vector<T> dx;
#pragma unroll
      for (int e = 0; e < width<T>; ++e) {
        dx.value[e] = gradient.at(n[v][e], g[v][e]);
      }
      if (Row::place(v) < call.columns) {
        store(call.dx + row * call.columns + Row::place(v), dx);
      }
    }
  }
  const auto put = [&](float* sums, float(&of_thread)[vectors][width<T>]) {
    if (sums == nullptr) {
      return;
    }
    if constexpr (teams > 1) {
      constexpr int room = (teams - 1) * threads * vectors * width<T> * int{sizeof(float)};
      static_assert(room <= Ring<T, threads, vectors>::template bytes<Tail>);
      add_up_teams<T, threads, teams>(of_thread, reinterpret_cast<float*>(ring));
    }
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      if (Team<threads>::index() == 0 && Row::place(v) < call.columns) {
        float* const to = sums + blockIdx.x * call.columns + Row::place(v);
#pragma unroll
        for (int e = 0; e < width<T>; e += 4) {  // one by one they would be as many writes
          const float* const from = of_thread[v] + e;
          *reinterpret_cast<float4*>(to + e) = make_float4(from[0], from[1], from[2], from[3]);
        }
      }
    }
  };
  put(call.dw, dw);
  put(call.db, db);
}

// dx of a row that lies on no vectors or is too long for a team.
template <class T, int threads>
__global__ void __launch_bounds__(row_block<threads>)
    norm_long_rows_kernel(const NormBackward<T> call) {
  using Row = RowValues<T, threads, 0>;
  const std::int64_t row = my_team<threads>();
  if (row >= call.rows) {
    return;
  }
  const auto [mean, rstd] = mean_and_rstd(call, row);
  const Row x(call.x + row * call.columns, call.columns);
  const Row dz(call.dy + row * call.columns, call.columns);
  const Row weight(call.weight, call.columns, 1);
  float sum_g = 0, sum_g_n = 0;
  each_column(
      [&](std::int64_t, float value, float grad, float w) {
        sum_g += grad * w;
        sum_g_n += grad * w * ((value - mean) * rstd);
      },
      x, dz, weight);
  const RowGradient gradient(Team<threads>::template sums_in_turn<1>(0, sum_g, sum_g_n), rstd,
                             call.over_columns, call.mean != nullptr);
  store_row(
      call.dx + row * call.columns,
      [&](std::int64_t, float value, float grad, float w) {
        return gradient.at((value - mean) * rstd, grad * w);
      },
      x, dz, weight);
}

// The sums of columns where no team could hold them: a thread for each column and group of rows.
template <class T>
__global__ void norm_columns_kernel(const NormBackward<T> call) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= call.columns) {
    return;
  }
  const std::int64_t begin = blockIdx.y * call.rows_of_group;
  const std::int64_t end = min(call.rows, begin + call.rows_of_group);
  float dw = 0, db = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const float mean = call.mean == nullptr ? 0 : call.mean[row];
    const float grad = to_float(call.dy[row * call.columns + column]);
    dw += grad * ((to_float(call.x[row * call.columns + column]) - mean) * call.rstd[row]);
    db += grad;
  }
  if (call.dw != nullptr) {
    call.dw[blockIdx.y * call.columns + column] = dw;
  }
  if (call.db != nullptr) {
    call.db[blockIdx.y * call.columns + column] = db;
  }
}

// z of rows that lie on no vectors or are too long for a team.
template <class T, int threads>
__global__ void norm_z_kernel(const NormBackward<T> call, T* z) {
  using Values = RowValues<T, threads, 0>;
  const std::int64_t row = my_team<threads>();
  if (row < call.rows) {
    const float mean = call.mean == nullptr ? 0 : call.mean[row], rstd = call.rstd[row];
    store_row(
        z + row * call.columns,
        [&](std::int64_t, float value, float w, float b) {
          return fmaf((value - mean) * rstd, w, b);
        },
        Values(call.x + row * call.columns, call.columns), Values(call.weight, call.columns, 1),
        Values(call.bias, call.columns));
  }
}

// The same gradient by the passes that would stand behind the norm, for such rows.
template <class T>
Tensor gradient_of_z(int device, const NormBackward<T>& call, const ops::ActivationArgs& tail) {
  const std::int64_t n = call.rows * call.columns;
  Tensor dz = Tensor::empty({n}, dtype_of<T>, Device::cuda(device));
  T* const z = dz.raw<T>();
  with_team(call.columns, [&]<int threads>(std::integral_constant<int, threads>) {
    norm_z_kernel<T, threads>
        <<<blocks_of_teams<threads>(call.rows), row_block<threads>, 0, use(device)>>>(call, z);
    check(cudaGetLastError(), "norm_z_kernel");
  });
  if (tail.act && !math::needs_input(*tail.act)) {
    activation_forward(device, tail, z, z, n);
  }
  activation_backward(device, tail, z, call.dy, z, n);
  return dz;
}

template <class Tail, class T>
void run_backward(int device, const NormBackward<T>& call, bool on_vectors, const Tail& tail) {
  const std::int64_t groups = norm_groups(call.rows, call.columns);
  const bool sums_wanted = call.dw != nullptr || call.db != nullptr;
  with_row_values<T>(call.columns, on_vectors, [&]<int threads, int vectors>() {
    if constexpr (vectors > 0) {
      const auto kernel = norm_backward_kernel<T, threads, vectors, Tail>;
      constexpr int bytes = Ring<T, threads, vectors>::template bytes<Tail>;
      if constexpr (bytes > 48 << 10) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
              "cudaFuncSetAttribute");
      }
      kernel<<<static_cast<unsigned>(groups), norm_block<T, threads, vectors>, bytes,
               use(device)>>>({call, tail});
      check(cudaGetLastError(), "norm_backward_kernel");
    } else if constexpr (!has_tail<Tail>) {
      if (call.dx != nullptr) {
        norm_long_rows_kernel<T, threads>
            <<<blocks_of_teams<threads>(call.rows), row_block<threads>, 0, use(device)>>>(call);
        check(cudaGetLastError(), "norm_long_rows_kernel");
      }
      if (sums_wanted) {
        constexpr unsigned block = 128;
        const dim3 grid(static_cast<unsigned>((call.columns + block - 1) / block),
                        static_cast<unsigned>(groups));
        norm_columns_kernel<T><<<grid, block, 0, use(device)>>>(call);
        check(cudaGetLastError(), "norm_columns_kernel");
      }
    }
  });
}

}  // namespace

template <class T>
void norm_backward(int device, const NormBackward<T>& call, const ops::ActivationArgs& tail) {
  if (call.rows == 0 || call.columns == 0) {
    return;
  }
  const bool on_vectors =
      rows_on_vectors_of<T>(call.columns, call.x, call.dy, call.dx, call.weight);
  const bool fits = rows_on_vectors_of<T>(call.columns, call.bias) && on_vectors &&
                    fits_team<T>(call.columns);
  const bool is_one_pass =
      (is_identity(tail) || fits) &&
      with_norm_tail(tail, call.rows * call.columns, call.columns,
                     [&](const auto& behind) { run_backward(device, call, on_vectors, behind); });
  if (!is_one_pass) {
    const Tensor dz = gradient_of_z(device, call, tail);
    NormBackward<T> bare = call;
    bare.dy = dz.raw<T>();
    run_backward(device, bare, on_vectors, Bare{});
  }
}

template void norm_backward(int, const NormBackward<SINTER_STORAGE>&, const ops::ActivationArgs&);

}  // namespace sinter::cuda
