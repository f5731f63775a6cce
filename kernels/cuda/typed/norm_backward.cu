// Gradients of layer and RMS normalisation, and of what stands behind them. Each team has some
// rows, so that it adds up the gradients of weight and bias on the way; another kernel adds up the
// teams.
#include <cuda_pipeline_primitives.h>

#include <sinter/kernels/cuda/norm.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

// Two sums that a team finds out at once.
struct Two {
  float a, b;
};
__device__ Two operator+(const Two& x, const Two& y) { return {x.a + y.a, x.b + y.b}; }
__device__ Two from_lane_xor(const Two& sums, int mask) {
  return {__shfl_xor_sync(0xffffffffu, sums.a, mask), __shfl_xor_sync(0xffffffffu, sums.b, mask)};
}

// The slopes of the activation at z, in its place.
template <class T>
struct SlopesAt {
  const Tail& tail;
  float (&value)[width<T>];

  template <class A>
  __device__ __forceinline__ void operator()() const {
    const A act = Parameters<A>(tail.act.value).activation();
#pragma unroll
    for (float& z : value) {
      z = slope_at(act, Number<T>(z), act.forward(Number<T>(z)));
    }
  }
};

// Rows of x and dy on their way through shared memory while others are worked on, one or two ahead:
// a team that waits for its row has nothing else to do. Each thread copies what it will read, so
// there is nobody to wait for. Rows that are too long for it are loaded when their turn comes. What
// stands behind the norm turns dy to dz, rounded to T, where it lies.
template <class T, int threads, int vectors, bool has_tail>
class RowsAhead {
 public:
  using Values = RowValues<T, threads, vectors>;

  __device__ RowsAhead(const NormTask<NormBackward<T>, has_tail>& call, std::int64_t begin,
                       std::int64_t end)
      : call_(call), end_(end) {
    for (int k = 0; k < ahead; ++k) {
      ask(begin + k, k);
    }
  }
  /// Calls use(x, dz) with the values of a row. Rows come one after the other.
  template <class Use>
  __device__ void with(std::int64_t row, Use use) {
    const T* const x = call_.x + row * call_.columns;
    const T* const dy = call_.dy + row * call_.columns;
    if constexpr (ahead == 0 && !has_tail) {
      use(Values(x, call_.columns), Values(dy, call_.columns));
    } else if constexpr (ahead == 0) {
      // Room for dz alone; the loop finds x in a cache.
      const Values of_row(x, call_.columns);
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        if (Values::place(v) < call_.columns) {
          *place(0, v) = load_raw(dy + Values::place(v));
        }
      }
      go_back_through_tail(
          row, [&](int v) { return load(x + Values::place(v)); }, 0);
      uint4 of_dz[vectors];
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        of_dz[v] = *place(0, v);
      }
      use(of_row, Values(of_dz, dy, call_.columns));
    } else {
      __pipeline_wait_prior(ahead - 1);
      if constexpr (has_tail) {
        go_back_through_tail(
            row, [&](int v) { return unpacked<T>(*place(slot_, v)); }, vectors);
      }
      uint4 of_x[vectors], of_dy[vectors];
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        of_x[v] = *place(slot_, v);
        of_dy[v] = *place(slot_, vectors + v);
      }
      ask(row + ahead, slot_);
      slot_ = slot_ + 1 == ahead ? 0 : slot_ + 1;
      use(Values(of_x, x, call_.columns), Values(of_dy, dy, call_.columns));
    }
  }

 private:
  static constexpr int block = row_block<threads>;
  static constexpr int bytes_of_row = 2 * vectors * block * 16;
  static constexpr int most_bytes = 32 << 10;
  static constexpr int ahead = vectors == 0                     ? 0
                               : 2 * bytes_of_row <= most_bytes ? 2
                               : bytes_of_row <= most_bytes     ? 1
                                                                : 0;

  static __device__ uint4* place(int slot, int vector) {
    constexpr int rows = ahead > 0 ? 2 * ahead : has_tail ? 1 : 0;
    __shared__ uint4 ring[rows == 0 ? 1 : rows * vectors * block];
    return &ring[(slot * 2 * vectors + vector) * block + static_cast<int>(threadIdx.x)];
  }
  __device__ void ask(std::int64_t row, int slot) {
    if (row < end_) {
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        const std::int64_t column = Values::place(v);
        if (column < call_.columns) {
          __pipeline_memcpy_async(place(slot, v), call_.x + row * call_.columns + column, 16);
          __pipeline_memcpy_async(place(slot, vectors + v), call_.dy + row * call_.columns + column,
                                  16);
        }
      }
    }
    __pipeline_commit();  // an empty one too, so that they can be counted
  }

  // From dy to dz, which lie from place `first` on.
  template <class X>
  __device__ void go_back_through_tail(std::int64_t row, X x, int first) {
    const float mean = call_.mean == nullptr ? 0 : call_.mean[row], rstd = call_.rstd[row];
#pragma unroll 1
    for (int v = 0; v < vectors && Values::place(v) < call_.columns; ++v) {
      uint4* const here = place(slot_, first + v);
      Vector<T> slope = z_of(call_, Values::place(v), x(v), mean, rstd);
      Vector<T> grad = unpacked<T>(*here);
      go_back(call_.tail, row * call_.columns + Values::place(v),
              SlopesAt<T>{call_.tail, slope.value}, slope.value, grad.value);
      store(reinterpret_cast<T*>(here), grad);
    }
  }

  const NormTask<NormBackward<T>, has_tail>& call_;
  std::int64_t end_;
  int slot_ = 0;
};

// Two blocks a multiprocessor where a thread's part of a row is small enough.
template <class T, int threads, int vectors>
inline constexpr int least_blocks = threads == 256 && vectors* width<T> <= 16 ? 2 : 1;

template <class T, int threads, int vectors, bool has_tail>
__global__ void __launch_bounds__(row_block<threads>, least_blocks<T, threads, vectors>)
    norm_backward_kernel(const NormTask<NormBackward<T>, has_tail> call) {
  using Group = Team<threads>;
  using Values = RowValues<T, threads, vectors>;
  constexpr bool sums_columns = vectors > 0;
  const std::int64_t team = my_team<threads>();
  const std::int64_t begin = team * call.rows_of_group;
  const std::int64_t end = min(call.rows, begin + call.rows_of_group);
  const float count = static_cast<float>(call.columns);
  constexpr int held = sums_columns ? vectors : 1;
  float dw[held][width<T>] = {}, db[held][width<T>] = {};
  const Values weight(call.weight, call.columns, 1);
  RowsAhead<T, threads, vectors, has_tail> rows(call, begin, end);
  const auto work_on = [&](std::int64_t row, const Values& x, const Values& dy) {
    const float mean = call.mean == nullptr ? 0 : call.mean[row];
    const float rstd = call.rstd[row];
    Two sums{0, 0};  // of g, of g n
    each_column(
        [&](std::int64_t, float value, float grad, float w) {
          const float g = grad * w;
          sums.a += g;
          sums.b += g * ((value - mean) * rstd);
        },
        x, dy, weight);
    sums = Group::sum(sums);
    const float of_g = call.mean == nullptr ? 0 : sums.a / count, of_g_n = sums.b / count;
    if (call.dx != nullptr) {
      store_row(
          call.dx + row * call.columns,
          [&](std::int64_t, float value, float grad, float w) {
            const float n = (value - mean) * rstd;
            return rstd * (grad * w - of_g - n * of_g_n);
          },
          x, dy, weight);
    }
    if constexpr (sums_columns) {
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
#pragma unroll
        for (int e = 0; e < width<T>; ++e) {
          const float grad = dy.vector[v].value[e];
          dw[v][e] += grad * ((x.vector[v].value[e] - mean) * rstd);
          db[v][e] += grad;
        }
      }
    }
  };
  for (std::int64_t row = begin; row < end; ++row) {
    rows.with(row, [&](const Values& x, const Values& dy) { work_on(row, x, dy); });
  }
  if constexpr (sums_columns) {
    if (begin >= end) {
      return;
    }
    const auto put = [&](float* sums, const float(&of_thread)[held][width<T>]) {
      if (sums == nullptr) {
        return;
      }
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        if (Values::place(v) < call.columns) {
#pragma unroll
          for (int e = 0; e < width<T>; ++e) {
            sums[team * call.columns + Values::place(v) + e] = of_thread[v][e];
          }
        }
      }
    };
    put(call.dw, dw);
    put(call.db, db);
  }
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

template <bool has_tail, class T>
void run_backward(int device, const NormBackward<T>& call, bool on_vectors,
                  const ops::ActivationArgs& tail) {
  const std::int64_t groups = norm_groups(call.rows, call.columns);
  const bool sums_wanted = call.dw != nullptr || call.db != nullptr;
  with_row_values<T>(call.columns, on_vectors, [&]<int threads, int vectors>() {
    if constexpr (vectors > 0 || !has_tail) {
      if (vectors > 0 || call.dx != nullptr) {
        NormBackward<T> of_teams = call;
        of_teams.rows_of_group = vectors > 0 && sums_wanted ? call.rows_of_group : 1;
        const std::int64_t teams = of_teams.rows_of_group == 1 ? call.rows : groups;
        norm_backward_kernel<T, threads, vectors, has_tail>
            <<<blocks_of_teams<threads>(teams), row_block<threads>, 0, use(device)>>>(
                norm_task<has_tail>(of_teams, tail));
        check(cudaGetLastError(), "norm_backward_kernel");
      }
      if (vectors == 0 && sums_wanted) {
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
  if (is_identity(tail)) {
    run_backward<false>(device, call, on_vectors, tail);
  } else if (rows_on_vectors_of<T>(call.columns, call.bias) && on_vectors &&
             fits_team<T>(call.columns)) {
    run_backward<true>(device, call, on_vectors, tail);
  } else {
    const Tensor dz = gradient_of_z(device, call, tail);
    NormBackward<T> bare = call;
    bare.dy = dz.raw<T>();
    run_backward<false>(device, bare, on_vectors, tail);
  }
}

template void norm_backward(int, const NormBackward<SINTER_STORAGE>&, const ops::ActivationArgs&);

}  // namespace sinter::cuda
