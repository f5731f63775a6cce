// Gradients of layer and RMS normalisation, and of what stands behind them. Each block has some
// rows, so that it adds up the gradients of weight and bias on the way; another kernel adds up the
// blocks.
#include <sinter/kernels/cuda/rows_ahead.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

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

// A thread's sums for its columns.
template <class T, int vectors>
struct ColumnSums {
  float dw[vectors][width<T>] = {};
  float db[vectors][width<T>] = {};

  /// Calls f(four of them, their number) for all.
  template <class F>
  __device__ __forceinline__ void each_four(F f) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
#pragma unroll
      for (int e = 0; e < width<T>; e += 4) {
        f(&dw[v][e], 2 * (v * width<T> + e) / 4);
        f(&db[v][e], 2 * (v * width<T> + e) / 4 + 1);
      }
    }
  }
};

// Those of a block's teams, one after the other, into the first one's. Four of a thread take 16
// bytes of `room`, which has space for all teams but the first.
template <int threads, int teams, class T, int vectors>
__device__ void add_up_teams(ColumnSums<T, vectors>& sums, float4* room) {
  constexpr int of_thread = 2 * vectors * width<T> / 4;
  const auto place = [&](int team, int number) -> float4& {
    return room[((team - 1) * of_thread + number) * threads + Team<threads>::rank()];
  };
  __syncthreads();  // until others are done with what lay there
  if (Team<threads>::index() > 0) {
    sums.each_four([&](const float* four, int number) {
      place(Team<threads>::index(), number) = make_float4(four[0], four[1], four[2], four[3]);
    });
  }
  __syncthreads();
  if (Team<threads>::index() == 0) {
#pragma unroll
    for (int team = 1; team < teams; ++team) {
      sums.each_four([&](float* four, int number) {
        const float4 theirs = place(team, number);
        four[0] += theirs.x;
        four[1] += theirs.y;
        four[2] += theirs.z;
        four[3] += theirs.w;
      });
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
  ColumnSums<T, vectors> column_sums;
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
        column_sums.dw[v][e] = fmaf(dz.value[e], n[v][e], column_sums.dw[v][e]);
        column_sums.db[v][e] += dz.value[e];
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
  if constexpr (teams > 1) {
    constexpr int room = (teams - 1) * threads * int{sizeof(column_sums)};
    static_assert(room <= Ring<T, threads, vectors>::template bytes<Tail>);
    add_up_teams<threads, teams>(column_sums, reinterpret_cast<float4*>(ring));
  }
  const auto put = [&](float* to, const float(&of_thread)[vectors][width<T>]) {
    if (to == nullptr || Team<threads>::index() != 0) {
      return;
    }
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      if (Row::place(v) < call.columns) {
        float* const at = to + blockIdx.x * call.columns + Row::place(v);
#pragma unroll
        for (int e = 0; e < width<T>; e += 4) {  // one by one they would be as many writes
          const float* const from = of_thread[v] + e;
          *reinterpret_cast<float4*>(at + e) = make_float4(from[0], from[1], from[2], from[3]);
        }
      }
    }
  };
  put(call.dw, column_sums.dw);
  put(call.db, column_sums.db);
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

// Whether a device has the shared memory for the rows ahead. Turing lacks it for long ones, which
// are then read anew each time.
template <class T>
bool fits_ring(int device, std::int64_t columns) {
  int most = 0;
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "cudaDeviceGetAttribute");
  bool fits = true;
  with_row_values<T>(columns, true, [&]<int threads, int vectors>() {
    if constexpr (vectors > 0) {
      constexpr int of_sums = 1 << 10;  // more than the sums of teams take
      fits = Ring<T, threads, vectors>::template bytes<Bare> + of_sums <= most;
    }
  });
  return fits;
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
      rows_on_vectors_of<T>(call.columns, call.x, call.dy, call.dx, call.weight) &&
      fits_ring<T>(device, call.columns);
  const bool fits =
      rows_on_vectors_of<T>(call.columns, call.bias) && on_vectors && fits_team<T>(call.columns);
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
