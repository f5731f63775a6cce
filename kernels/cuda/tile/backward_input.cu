// dx = dy w and, where dx's tensor came out of a pass, that pass's derivative, in one kernel.
#include <sinter/kernels/cuda/tile/backward_input.cuh>
#include <sinter/kernels/cuda/tile/launch.cuh>
#include <sinter/kernels/cuda/tile/shapes.cuh>
#include <sinter/kernels/cuda/tile/tile.h>

namespace sinter::cuda::tile {
namespace {

struct BackwardTask {
  Matrix dy;
  Matrix w;
  float* dx;
  PassBackward pass;
  Settled settled;   // rest: what the pass kept
  bool vectors_out;  // of what was kept and of dx
};

template <class S, bool vectors_dy, bool vectors_w>
__global__ void __launch_bounds__(S::bounded_threads, 1)
    backward_kernel(const __grid_constant__ BackwardTask task) {
  extern __shared__ __align__(16) float room[];
  if constexpr (!has_tf32) {
    return;
  }
  const int rows = task.dy.lines, columns = task.w.lines;
  const auto at = Place<S>::of_grid();
  Quad kept[S::quads_to_finish];
  const auto count_of = [&](int i) {
    return at.has(i) ? valid(at.row(i), at.column(i), rows, columns) : 0;
  };
  KeptBits<S::quads_to_finish> bits(task.pass.mask);
  const auto each_dropped = [&](auto f) {
#pragma unroll
    for (int i = 0; i < S::quads_to_finish; ++i) {
      if (task.pass.drops_unseen() && count_of(i) != 0) {
        f(i, std::uint64_t(at.row(i)) * columns + at.column(i));
      }
    }
  };
  each_dropped([&](int i, std::uint64_t element) { bits.prepare(i, element); });
  NoSums none;
  multiply<S, Major::k, vectors_dy, Major::line, vectors_w>(
      at, task.dy, task.w, task.settled, none, room, [&](Stage stage) {
        if (stage == draws_at<S>) {
          each_dropped([&](int i, std::uint64_t element) { bits.draw(i, element); });
        }
        if (stage != loads_at<S> || task.pass.kept == nullptr) {
          return;
        }
#pragma unroll
        for (int i = 0; i < S::quads_to_finish; ++i) {
          load_quad(kept[i], task.pass.kept + (at.row(i) * columns + at.column(i)), count_of(i),
                    task.vectors_out);
        }
      });
  __syncthreads();
  float4 dx[S::quads_to_finish];
#pragma unroll
  for (int i = 0; i < S::quads_to_finish; ++i) {
    dx[i] = at.has(i) ? total(at, room, at.quad(i)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  task.pass(dx, kept, bits);
#pragma unroll
  for (int i = 0; i < S::quads_to_finish; ++i) {
    store_quad(task.dx + (at.row(i) * columns + at.column(i)), {dx[i].x, dx[i].y, dx[i].z, dx[i].w},
               count_of(i), task.vectors_out);
  }
}

template <class S>
void launch_shape(Launch& launch, const BackwardTask& task) {
  const dim3 blocks = tiles<S>(task.dy.lines, task.w.lines);
  const bool vectors_dy = rows_on_vectors(task.dy.data, task.dy.stride);
  const bool vectors_w = rows_on_vectors(task.w.data, task.w.stride);
  const auto kernel = !vectors_w    ? backward_kernel<S, false, false>
                      : !vectors_dy ? backward_kernel<S, false, true>
                                    : backward_kernel<S, true, true>;
  run(launch, kernel, blocks, S::threads, S::partial_floats * sizeof(float), task);
}

}  // namespace

void linear_backward_input(In dy, In weight, In kept, Out dx, const ops::ActivationArgs& args) {
  BackwardTask task{};
  task.dy = operand(*dy, Major::k);
  task.w = operand(*weight, Major::line);
  task.dx = dx->raw<float>();
  task.pass = PassBackward(*kept, args);
  task.vectors_out = rows_on_vectors(task.dx, task.w.lines) && on_vectors(task.pass.kept);
  Launch launch_here(dy->device().index);
  task.settled = {launch_here.settled(*dy), launch_here.settled(*weight),
                  launch_here.settled(*kept)};
  launch_here.writes(*dx);
  with_tile(task.dy.lines, task.w.lines, task.dy.depth, launch_here.multiprocessors(),
            [&]<class S>(std::type_identity<S>) { launch_shape<S>(launch_here, task); });
}

}  // namespace sinter::cuda::tile
