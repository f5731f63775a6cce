// Gated linear units: one half of a row times the activation of the other, then dropout, in one
// pass. The activation is chosen while the kernel runs: memory takes longer than a switch, and
// kernels for each activation would be hundreds.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/part.cuh>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/kernels/cuda/tail.cuh>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {
namespace {

template <class T>
struct GluTask {
  const T* x;   // rows of two halves
  const T* dy;  // or null: forward
  T* out;       // y, or dx
  std::int64_t rows;
  std::int64_t columns;  // of a half
  tile::AnyParameters act;
  tile::Mask mask;
};

// The gate's value, and its slope where wanted.
template <class T, int count>
struct Gate {
  const tile::AnyParameters& act;
  float (&value)[count];
  float (&slope)[count];
  bool wants_slope;

  template <class A>
  __device__ __forceinline__ void operator()() const {
    const A gate = Parameters<A>(act.value).activation();
#pragma unroll
    for (int e = 0; e < count; ++e) {
      const Number<T> z(value[e]);
      const Number<T> y = gate.forward(z);
      value[e] = y.value;
      if (wants_slope) {
        slope[e] = slope_at(gate, z, y);
      }
    }
  }
};

template <class T, int count>
__global__ void __launch_bounds__(block_threads)
    glu_kernel(const __grid_constant__ GluTask<T> task) {
  const std::int64_t per_row = task.columns / count;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= task.rows * per_row) {
    return;
  }
  const std::int64_t row = at / per_row, column = at % per_row * count;
  const std::int64_t left = row * 2 * task.columns + column, right = left + task.columns;
  const std::int64_t of_output = row * task.columns + column;
  const bool is_backward = task.dy != nullptr;
  using Here = Part<T, count>;
  Here a = Here::load_from(task.x + left), b = Here::load_from(task.x + right), dy;
  if (is_backward) {
    dy = Here::load_from(task.dy + of_output);
  }
  const auto kept = kept_of<count>(task.mask, of_output);
  float slope[count];
  tile::with_chosen(task.act, Gate<T, count>{task.act, b.value, slope, is_backward});
#pragma unroll
  for (int e = 0; e < count; ++e) {
    const bool stays = keeps(kept, e);
    if (is_backward) {
      const float grad = stays ? dy.value[e] * task.mask.scale : 0.0f;
      const float of_gate = slope[e] == 0 ? 0.0f : grad * a.value[e] * slope[e];
      a.value[e] = stays ? grad * b.value[e] : 0.0f;  // whatever the gate is
      b.value[e] = stays ? of_gate : 0.0f;
    } else {
      a.value[e] = stays ? a.value[e] * b.value[e] * task.mask.scale : 0.0f;
    }
  }
  if (is_backward) {
    a.store_to(task.out + left);
    b.store_to(task.out + right);
  } else {
    a.store_to(task.out + of_output);
  }
}

template <class T>
void run(int device, const GluTask<T>& task) {
  const auto launch = [&]<int count>() {
    const std::int64_t parts = task.rows * (task.columns / count);
    if (parts > 0) {
      glu_kernel<T, count><<<static_cast<unsigned>((parts + block_threads - 1) / block_threads),
                             block_threads, 0, use(device)>>>(task);
      check(cudaGetLastError(), "glu_kernel");
    }
  };
  constexpr int of_thread = 8;  // a group of the mask
  if (task.columns % of_thread == 0 &&
      rows_on_vectors_of<T>(task.columns, task.x, task.dy, task.out)) {
    launch.template operator()<of_thread>();
  } else {
    launch.template operator()<1>();
  }
}

}  // namespace

template <class T>
void glu(int device, const ops::ActivationArgs& args, const T* x, const T* dy, T* out,
         std::int64_t rows, std::int64_t columns) {
  run<T>(device,
         {x, dy, out, rows, columns, tile::AnyParameters(args.act), tile::Mask(args.dropout)});
}

template void glu(int, const ops::ActivationArgs&, const SINTER_STORAGE*, const SINTER_STORAGE*,
                  SINTER_STORAGE*, std::int64_t, std::int64_t);

}  // namespace sinter::cuda
