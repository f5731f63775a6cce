// y = dropout(act(x w^T + bias)) in one kernel.
#include <sinter/kernels/cuda/tile/activation.cuh>
#include <sinter/kernels/cuda/tile/dropout.cuh>
#include <sinter/kernels/cuda/tile/launch.cuh>
#include <sinter/kernels/cuda/tile/shapes.cuh>
#include <sinter/kernels/cuda/tile/tile.h>

namespace sinter::cuda::tile {
namespace {

struct ForwardTask {
  Matrix x;
  Matrix w;
  const float* bias;  // or null
  float* z;           // or null
  float* y;
  AnyParameters act;
  Mask mask;
  Settled settled;
  bool vectors_out;  // of bias, z and y
};

// y = act(x) times the scale. Unused where the kernels are empty.
[[maybe_unused]] __device__ __noinline__ float4 activate(AnyParameters act, float scale, float4 x) {
  const float in[4] = {x.x, x.y, x.z, x.w};
  float out[4];
  with_chosen(act, [&]<class A>() {
    const Forward<A, float, true> body{{}, Parameters<A>(act.value), scale};
    Anywhere::State nothing;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float y[1];
      body(nothing, {in[i]}, y);
      out[i] = y[0];
    }
  });
  return make_float4(out[0], out[1], out[2], out[3]);
}

template <class S, bool vectors>
__device__ __forceinline__ void forward_tile(const ForwardTask& task, const Place<S>& at,
                                             float* room) {
  const int rows = task.x.lines, columns = task.w.lines;
  Quad bias[S::quads_to_finish];
  KeptBits<S::quads_to_finish> kept(task.mask);
  const auto each_kept = [&](auto f) {
#pragma unroll
    for (int i = 0; i < S::quads_to_finish; ++i) {
      if (at.has(i) && at.row(i) < rows && at.column(i) < columns) {
        f(i, std::uint64_t(at.row(i)) * columns + at.column(i));
      }
    }
  };
  each_kept([&](int i, std::uint64_t element) { kept.prepare(i, element); });
  NoSums none;
  multiply<S, Major::k, vectors, Major::k, vectors>(
      at, task.x, task.w, task.settled, none, room, [&](Stage stage) {
        if (stage == draws_at<S>) {
          each_kept([&](int i, std::uint64_t element) { kept.draw(i, element); });
        }
        if (stage != loads_new_at<S> || task.bias == nullptr) {
          return;
        }
#pragma unroll
        for (int i = 0; i < S::quads_to_finish; ++i) {
          const int count = at.has(i) ? valid(at.row(i), at.column(i), rows, columns) : 0;
          load_quad(bias[i], task.bias + at.column(i), count, task.vectors_out);
        }
      });
  __syncthreads();
#pragma unroll
  for (int i = 0; i < S::quads_to_finish; ++i) {
    const int count = at.has(i) ? valid(at.row(i), at.column(i), rows, columns) : 0;
    if (count == 0) {
      continue;
    }
    const int offset = at.row(i) * columns + at.column(i);
    float4 z = total(at, room, at.quad(i));
    if (task.bias != nullptr) {
      z.x += bias[i][0];
      z.y += bias[i][1];
      z.z += bias[i][2];
      z.w += bias[i][3];
    }
    if (task.z != nullptr) {
      store_quad(task.z + offset, {z.x, z.y, z.z, z.w}, count, task.vectors_out);
    }
    const float4 y = activate(task.act, task.mask.scale, z);
    store_quad(task.y + offset,
               {kept[i] & 1 ? y.x : 0.0f, kept[i] & 2 ? y.y : 0.0f, kept[i] & 4 ? y.z : 0.0f,
                kept[i] & 8 ? y.w : 0.0f},
               count, task.vectors_out);
  }
}

template <class S, bool vectors>
__global__ void __launch_bounds__(S::bounded_threads, 1)
    forward_kernel(const __grid_constant__ ForwardTask task) {
  extern __shared__ __align__(16) float room[];
  if constexpr (!has_tf32) {
    return;
  }
  forward_tile<S, vectors>(task, Place<S>::of_grid(), room);
}

template <class S>
void launch_shape(Launch& launch, const ForwardTask& task, bool vectors) {
  const dim3 blocks = tiles<S>(task.x.lines, task.w.lines);
  run(launch, vectors ? forward_kernel<S, true> : forward_kernel<S, false>, blocks, S::threads,
      S::partial_floats * sizeof(float), task);
}

}  // namespace

void linear_forward(In x, In weight, In bias, Out z, Out y, const ops::ActivationArgs& args) {
  ForwardTask task{};
  task.x = operand(*x, Major::k);
  task.w = operand(*weight, Major::k);
  task.bias = data_or_null(*bias);
  task.z = data_or_null(*z);
  task.y = y->raw<float>();
  task.act = AnyParameters(args.act);
  task.mask = Mask(args.dropout);
  const bool vectors =
      rows_on_vectors(task.x.data, task.x.stride) && rows_on_vectors(task.w.data, task.w.stride);
  task.vectors_out =
      rows_on_vectors(task.y, task.w.lines) && on_vectors(task.bias) && on_vectors(task.z);
  Launch launch_here(x->device().index);
  task.settled = {launch_here.settled(*x), launch_here.settled(*weight), true};
  launch_here.writes(*z);
  launch_here.writes(*y);
  with_tile(task.x.lines, task.w.lines, task.x.depth, launch_here.multiprocessors(),
            [&]<class S>(std::type_identity<S>) { launch_shape<S>(launch_here, task, vectors); });
}

}  // namespace sinter::cuda::tile
