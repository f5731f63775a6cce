// The last Linear, softmax cross entropy and the gradient of the Linear's input in one kernel.
//
// A block takes 16 rows with all their classes, which leaves each row to four lanes of two warps.
// The gradient of the rows' input is a product over the classes: short enough for the warps to take
// columns one by one. Where there are few rows, several blocks do the same rows and share out these
// columns; the first of them is the one that stores the rest. A warp of its own looks after what
// concerns all rows, the weights of a mean and the sum of the losses, beside the others.
#include <algorithm>
#include <cmath>

#include <sinter/kernels/cuda/tile/backward_input.cuh>
#include <sinter/kernels/cuda/tile/head.cuh>
#include <sinter/kernels/cuda/tile/head.h>
#include <sinter/kernels/cuda/tile/launch.cuh>
#include <sinter/kernels/cuda/tile/shapes.cuh>

namespace sinter::cuda::tile {
namespace {

struct HeadTask {
  Matrix x;
  Matrix w;
  const float* bias;  // or null
  HeadRows rows;
  float* dx;  // or null
  PassBackward pass;
  double* partial;   // losses of the blocks' rows
  Settled settled;   // rest: bias, labels and class weights
  int slices;        // blocks for the same rows
  int slice;         // columns of dx that each takes
  bool vectors_out;  // of dx and what the pass kept
};

// 16 rows and 16 columns of dx, by one warp.
using InputTile = Shape<1, 2, 1, 1, 1>;

template <int classes>
struct alignas(16) Shared {
  // A row is 16 bytes longer than need be: rows lie in different banks.
  float slope[16][classes + 4];
  float loss[16];
  std::int64_t bad[16];
  double weight;  // of all rows, in the mean; else 1
  float scale;    // of the slopes
};

// At the first barrier the two warps that finish the rows tell the last one, and go on; at the
// second all but the last one meet.
using LossesKnown = Barrier<1, 3 * 32>;
template <class S>
using SlopesKnown = Barrier<2, S::threads>;

// What a lane needs for two quads of dx, of rows r and r + 1 of the block.
template <int classes, bool vectors>
struct InputColumns {
  static constexpr int granules = classes / granule;
  float w[granules][InputTile::lines_b][4];
  Quad kept[2];
  KeptBits<2> bits;

  __device__ __forceinline__ explicit InputColumns(const HeadTask& task) : bits(task.pass.mask) {}

  __device__ __forceinline__ void prepare(const HeadTask& task, const Place<InputTile>& at) {
    each_dropped(task, at, [&](int i, std::uint64_t element) { bits.prepare(i, element); });
  }
  __device__ __forceinline__ void draw(const HeadTask& task, const Place<InputTile>& at) {
    each_dropped(task, at, [&](int i, std::uint64_t element) { bits.draw(i, element); });
  }
  __device__ __forceinline__ void load_w(const HeadTask& task, const Place<InputTile>& at) {
    const Matrix turned{task.w.data, task.w.depth, task.w.lines, task.w.stride};
    const Operand<InputTile::lines_b, Major::line, vectors> operand(turned, at.n);
#pragma unroll
    for (int g = 0; g < granules; ++g) {
      operand.load(w[g], g * granule + 4 * at.quarter);
    }
  }
  __device__ __forceinline__ void load_kept(const HeadTask& task, const Place<InputTile>& at) {
    if (task.pass.kept != nullptr) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_quad(kept[i], task.pass.kept + offset(task, at, i), count(task, at, i),
                  task.vectors_out);
      }
    }
  }
  __device__ __forceinline__ void finish(const HeadTask& task, const Place<InputTile>& at,
                                         const Shared<classes>& shared) {
    Partial<InputTile> sum;
    sum.clear();
#pragma unroll
    for (int g = 0; g < granules; ++g) {
      float slopes[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(
            &shared.slope[2 * at.group + i][g * granule + 4 * at.quarter]);
        slopes[i][0] = quiet(four.x);
        slopes[i][1] = quiet(four.y);
        slopes[i][2] = quiet(four.z);
        slopes[i][3] = quiet(four.w);
      }
      for (auto& line : w[g]) {
        for (float& value : line) {
          value = quiet(value);
        }
      }
      sum.add(slopes, w[g]);
    }
    float4 dx[2] = {sum.quad(0), sum.quad(1)};
    task.pass(dx, kept, bits);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      store_quad(task.dx + offset(task, at, i), {dx[i].x, dx[i].y, dx[i].z, dx[i].w},
                 count(task, at, i), task.vectors_out);
    }
  }

 private:
  static __device__ int column(const Place<InputTile>& at) {
    return at.n - InputTile::lines_b * at.group + 4 * at.quarter;
  }
  static __device__ int offset(const HeadTask& task, const Place<InputTile>& at, int i) {
    return (at.m + i) * task.x.depth + column(at);
  }
  static __device__ int count(const HeadTask& task, const Place<InputTile>& at, int i) {
    return valid(at.m + i, column(at), task.x.lines, task.x.depth);
  }
  template <class F>
  static __device__ __forceinline__ void each_dropped(const HeadTask& task,
                                                      const Place<InputTile>& at, F f) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (task.pass.drops_unseen() && count(task, at, i) != 0) {
        f(i, std::uint64_t(at.m + i) * task.x.depth + column(at));
      }
    }
  }
};

// The 16 rows' logits, summed up over the warps, become losses and slopes: lines 0 and 1 of the
// fragments, by a warp each.
template <class S, int classes>
__device__ __forceinline__ void finish_rows(const HeadTask& task, const Place<S>& at, int line,
                                            bool stores, std::int64_t label, const float* room,
                                            const float (&bias)[S::lines_b * 2],
                                            Shared<classes>& shared) {
  constexpr int columns = 2 * S::lines_b, quads = columns / 4;
  const CrossEntropy<float>& call = task.rows.call;
  const int row = at.m + line, in_block = S::lines_a * at.group + line;
  const int column = columns * at.quarter;
  float x[columns];
#pragma unroll
  for (int u = 0; u < quads; ++u) {
    const float4 sum = total(at, room, line * quads + u);
    x[4 * u] = sum.x + bias[4 * u];
    x[4 * u + 1] = sum.y + bias[4 * u + 1];
    x[4 * u + 2] = sum.z + bias[4 * u + 2];
    x[4 * u + 3] = sum.w + bias[4 * u + 3];
  }
  const bool exists = row < task.x.lines;
  finish_row(task.rows, label, column, shared.scale, x, [&](float loss) {
    if (at.quarter == 0) {
      const bool is_bad = task.rows.is_bad(label);
      const float value = is_bad ? NAN : loss;  // for whoever reads it before the note
      shared.loss[in_block] = value;
      shared.bad[in_block] = is_bad ? row : no_position;
      if (stores && exists && call.reduction == ops::Reduction::none) {
        call.loss.stored[row] = value;
      }
    }
    __syncwarp();  // which a barrier asks for
    LossesKnown::arrive();
  });
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    shared.slope[in_block][column + i] = x[i];
    if (stores && exists && call.grad != nullptr && column + i < call.classes) {
      call.grad[row * static_cast<int>(call.classes) + column + i] = x[i];
    }
  }
}

// What the last warp does before the rows' losses are known.
template <int classes>
__device__ __forceinline__ void find_scale(const HeadTask& task, Shared<classes>& shared) {
  double weight = 1;
  if (task.rows.call.reduction == ops::Reduction::mean) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int count = 0;  // while all weigh 1
    weight = 0;
    constexpr int in_flight = 16;  // or each would wait for the one before it
#pragma unroll 1
    for (int first = 0; first < task.x.lines; first += 32 * in_flight) {
      std::int64_t label[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        const int row = first + 32 * i + lane;
        label[i] = row < task.x.lines ? task.rows.labels[row] : task.rows.call.ignore_index;
      }
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        if (task.rows.call.class_weights == nullptr) {
          count += task.rows.counts(label[i]) ? 1 : 0;
        } else {
          weight += task.rows.weight_in_mean(label[i]);
        }
      }
    }
    weight = task.rows.call.class_weights == nullptr ? static_cast<double>(Team<32>::sum(count))
                                                     : Team<32>::sum(weight);
  }
  if (threadIdx.x % 32 == 0) {
    shared.weight = weight;
    // With nothing to average over, all is 0.
    shared.scale = weight == 0 ? 0.0f : 1.0f / static_cast<float>(weight);
  }
}

// Blocks that have told their rows' losses and, in the upper half, those of them with a bad label.
__device__ unsigned told_blocks;

// And after.
template <int classes>
__device__ __forceinline__ void finish_losses(const HeadTask& task, int rows_block,
                                              const Shared<classes>& shared) {
  const unsigned blocks = gridDim.x / static_cast<unsigned>(task.slices);
  const unsigned lane = threadIdx.x % 32;
  double sum = Team<32>::sum(lane < 16 ? static_cast<double>(shared.loss[lane]) : 0.0);
  const std::int64_t bad = Team<32>::smallest(lane < 16 ? shared.bad[lane] : no_position);
  unsigned told = 0;
  if (lane == 0) {
    see_bad(bad);
    const unsigned mine = 1u + (bad == no_position ? 0u : 1u << 16);
    task.partial[rows_block] = sum;
    __threadfence();
    told = mine + (blocks == 1 ? 0u : atomicAdd(&told_blocks, mine));
  }
  told = __shfl_sync(0xffffffffu, told, 0);
  if ((told & 0xffffu) != blocks) {
    return;
  }
  __threadfence();
  if (blocks > 1) {
    sum = 0;
    for (unsigned i = lane; i < blocks; i += 32) {
      sum += __ldcg(task.partial + i);
    }
    sum = Team<32>::sum(sum);
  }
  const CrossEntropy<float>& call = task.rows.call;
  if (lane == 0) {
    told_blocks = 0;
    if (call.reduction != ops::Reduction::none) {
      call.loss.stored[0] = static_cast<float>(shared.weight == 0 ? 0 * sum : sum / shared.weight);
    }
    if (told >> 16 != 0 || !call.fault.is_kept) {  // else it would be waited for in vain
      note_bad(call.fault, task.rows.labels, call.classes);
    }
  }
}

template <int classes, bool vectors>
__global__ void __launch_bounds__(HeadTile<classes>::threads + 32, 1)
    head_kernel(const __grid_constant__ HeadTask task) {
  using S = HeadTile<classes>;
  extern __shared__ __align__(16) float room[];
  __shared__ Shared<classes> shared;
  if constexpr (!has_tf32) {
    return;
  }
  const int rows_block = static_cast<int>(blockIdx.x) / task.slices;
  const int slice = static_cast<int>(blockIdx.x) % task.slices;
  const Place<S> at(rows_block, 0);
  const int warp = at.warp_n * S::warps_k + at.warp_k;
  if (warp == S::warps) {
    if (!task.settled.rest) {
      wait_for_previous();
    }
    find_scale(task, shared);
    if (task.settled.rest) {
      wait_for_previous();
    }
    __syncthreads();
    LossesKnown::sync();
    if (slice == 0) {
      finish_losses(task, rows_block, shared);
    }
    return;
  }
  const int end = min(task.x.depth, (slice + 1) * task.slice);
  const int begin = slice * task.slice + warp * InputTile::n;
  const bool has_columns = task.dx != nullptr && begin < end;
  Place<InputTile> part(0, rows_block * S::m, begin);
  InputColumns<classes, vectors> columns(task);
  if (has_columns) {
    columns.prepare(task, part);
  }
  float bias[2 * S::lines_b];
  std::int64_t label = 0;
  NoSums none;
  multiply<S, Major::k, vectors, Major::k, vectors>(
      at, task.x, task.w, task.settled, none, room, [&](Stage stage) {
        if (has_columns && stage == draws_at<S>) {
          columns.draw(task, part);
        }
        if (has_columns && loads_at<S>(stage, task.settled.b)) {
          columns.load_w(task, part);
        }
        if (has_columns && loads_at<S>(stage, false)) {
          columns.load_kept(task, part);
        }
        if (warp < 2 && loads_at<S>(stage, task.settled.rest)) {
          // Lanes of rows that do not exist go along, for the others' sake.
          label = at.m + warp < task.x.lines ? task.rows.labels[at.m + warp]
                                             : task.rows.call.ignore_index;
#pragma unroll
          for (int i = 0; i < 2 * S::lines_b; ++i) {
            const int column = 2 * S::lines_b * at.quarter + i;
            bias[i] =
                task.bias != nullptr && column < task.w.lines ? __ldcg(task.bias + column) : 0.0f;
          }
        }
      });
  __syncthreads();
  if (warp < 2) {
    finish_rows(task, at, warp, slice == 0, label, room, bias, shared);
  }
  SlopesKnown<S>::sync();
  if (!has_columns) {
    return;
  }
  columns.finish(task, part, shared);
#pragma unroll 1
  for (int n = begin + S::warps * InputTile::n; n < end; n += S::warps * InputTile::n) {
    part = Place<InputTile>(0, rows_block * S::m, n);
    columns.prepare(task, part);
    columns.draw(task, part);
    columns.load_w(task, part);
    columns.load_kept(task, part);
    columns.finish(task, part, shared);
  }
}

template <int classes>
void launch_shape(Launch& launch, HeadTask& task) {
  using S = HeadTile<classes>;
  constexpr int columns = S::warps * InputTile::n;  // of dx, one run for each warp
  const int blocks = divided_up(task.x.lines, S::m);
  const int runs = task.dx == nullptr ? 1 : divided_up(task.x.depth, columns);
  const int wanted = std::clamp(launch.multiprocessors() / blocks, 1, runs);
  task.slice = columns * divided_up(runs, wanted);
  task.slices = divided_up(runs * columns, task.slice);
  const bool vectors =
      rows_on_vectors(task.x.data, task.x.stride) && rows_on_vectors(task.w.data, task.w.stride);
  run(launch, vectors ? head_kernel<classes, true> : head_kernel<classes, false>,
      blocks * task.slices, S::threads + 32, S::partial_floats * sizeof(float), task);
}

}  // namespace

void linear_cross_entropy(In x, In weight, In bias, In kept, Out dx,
                          const CrossEntropy<float>& call, const HeadTensors& tensors,
                          const ops::ActivationArgs& args) {
  HeadTask task{};
  task.x = operand(*x, Major::k);
  task.w = operand(*weight, Major::k);
  task.bias = data_or_null(*bias);
  task.rows = {call,
               {call.labels},
               static_cast<float>(call.label_smoothing / static_cast<double>(call.classes)),
               static_cast<float>(1 - call.label_smoothing)};
  task.dx = data_or_null(*dx);
  task.pass = PassBackward(*kept, args);
  task.vectors_out = rows_on_vectors(task.dx, task.x.depth) && on_vectors(task.pass.kept);
  const Tensor partial = Tensor::empty({divided_up(task.x.lines, 16)}, DType::float64, x->device());
  task.partial = partial.raw<double>();
  Launch launch_here(x->device().index);
  task.settled = {launch_here.settled(*x), launch_here.settled(*weight),
                  launch_here.settled(*bias) && launch_here.settled(tensors.labels) &&
                      launch_here.settled(tensors.class_weights)};
  launch_here.writes(tensors.loss);
  launch_here.writes(tensors.dlogits);
  launch_here.writes(*dx);
  launch_here.writes(partial);
  launch_here.writes(Range(call.fault.words, 3 * sizeof(std::int64_t)));
  if (call.classes <= 16) {
    launch_shape<16>(launch_here, task);
  } else {
    launch_shape<32>(launch_here, task);
  }
}

}  // namespace sinter::cuda::tile
