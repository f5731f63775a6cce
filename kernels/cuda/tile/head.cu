// The last Linear, softmax cross entropy and the gradient of the Linear's input in one kernel.
//
// A block takes 16 rows with all their classes, and a lane finishes a class of a row. The gradient
// of the rows' input is a product over the classes: short enough for the warps to take columns one
// by one. Where there are few rows, several blocks do the same rows and share out these columns;
// the first of them is the one that stores the rest. A warp of its own looks after what concerns
// all rows, the weights of a mean and the sum of the losses, beside the others.
#include <algorithm>
#include <cmath>

#include <sinter/kernels/cuda/tile/head.h>
#include <sinter/kernels/cuda/tile/head_columns.cuh>
#include <sinter/kernels/cuda/tile/launch.cuh>
#include <sinter/kernels/cuda/tile/shapes.cuh>

namespace sinter::cuda::tile {
namespace {

// A row is finished by a lane for each class.
template <int classes>
inline constexpr int finishing_warps = 16 * classes / 32;

// At the first barrier the warps that finish the rows tell the last one, and go on; at the second
// all but the last one meet.
template <int classes>
using LossesKnown = Barrier<1, (finishing_warps<classes> + 1) * 32>;
template <class S>
using SlopesKnown = Barrier<2, S::threads>;

// A lane's class of one of the 16 rows.
template <class S, int classes>
struct RowLane {
  int row;  // of the block
  int column;
  int partial;  // where a warp's partial sum is

  __device__ __forceinline__ RowLane() {
    constexpr int columns = 2 * S::lines_b;  // of a lane of the product
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
    const int of_warps = warp * (32 / classes) + lane / classes;  // rows in this order lie in
    const int line = of_warps / 8, group = of_warps % 8;          // different banks
    row = S::lines_a * group + line;
    column = lane % classes;
    const int quad = line * (columns / 4) + column % columns / 4;
    partial = (quad * 32 + 4 * group + column / columns) * 4 + column % 4;
  }
  __device__ __forceinline__ float total(const float* room) const {
    float sum = room[partial];
#pragma unroll
    for (int k = 1; k < S::warps_k; ++k) {
      sum += room[k * S::quads * 128 + partial];
    }
    return sum;
  }
};

// The 16 rows' logits, summed up over the warps, become losses and slopes.
template <class S, int classes>
__device__ __forceinline__ void finish_rows(const HeadTask& task, int first_row, bool stores,
                                            std::int64_t label, const float* room, float bias,
                                            HeadShared<classes>& shared) {
  const CrossEntropy<float>& call = task.rows.call;
  const RowLane<S, classes> at;
  const int row = first_row + at.row;
  const bool exists = row < task.x.lines;
  const float logit = at.total(room) + bias;
  const float slope =
      finish_row<classes>(task.rows, label, at.column, shared.scale, logit, [&](float loss) {
        if (at.column == 0) {
          const bool is_bad = task.rows.is_bad(label);
          const float value = is_bad ? NAN : loss;  // for whoever reads it before the note
          shared.loss[at.row] = value;
          shared.bad[at.row] = is_bad ? row : no_position;
          if (stores && exists && call.reduction == ops::Reduction::none) {
            call.loss.stored[row] = value;
          }
        }
        __syncwarp();  // which a barrier asks for
        LossesKnown<classes>::arrive();
      });
  shared.slope[at.row][at.column] = slope;
  if (stores && exists && call.grad != nullptr && at.column < call.classes) {
    call.grad[row * static_cast<int>(call.classes) + at.column] = slope;
  }
}

// What the last warp does before the rows' losses are known.
template <int classes>
__device__ __forceinline__ void find_scale(const HeadTask& task, HeadShared<classes>& shared) {
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
                                              const HeadShared<classes>& shared) {
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
  __shared__ HeadShared<classes> shared;
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
    LossesKnown<classes>::sync();
    if (slice == 0) {
      finish_losses(task, rows_block, shared);
    }
    return;
  }
  const int end = min(task.x.depth, (slice + 1) * task.slice);
  const int begin = slice * task.slice + warp * InputColumns<classes>::columns;
  const bool has_columns = task.dx != nullptr && begin < end;
  InputColumns<classes> columns(task);
  columns.move_to(rows_block * S::m, begin);
  if (has_columns) {
    columns.prepare();
  }
  const bool finishes = warp < finishing_warps<classes>;
  float bias = 0;
  std::int64_t label = 0;
  NoSums none;
  multiply<S, Major::k, vectors, Major::k, vectors>(
      at, task.x, task.w, task.settled, none, room, [&](Stage stage) {
        if (has_columns && stage == draws_at<S>) {
          columns.draw();
        }
        if (has_columns && stage == loads_at<S>) {
          columns.load_w();
        }
        if (has_columns && stage == loads_new_at<S>) {
          columns.load_kept();
        }
        if (finishes && stage == loads_at<S>) {
          const RowLane<S, classes> of;
          // Lanes of rows that do not exist go along, for the others' sake.
          label = rows_block * S::m + of.row < task.x.lines
                      ? task.rows.labels[rows_block * S::m + of.row]
                      : task.rows.call.ignore_index;
          bias = task.bias != nullptr && of.column < task.w.lines ? __ldcg(task.bias + of.column)
                                                                  : 0.0f;
        }
      });
  __syncthreads();
  if (finishes) {
    finish_rows<S>(task, rows_block * S::m, slice == 0, label, room, bias, shared);
  }
  SlopesKnown<S>::sync();
  if (!has_columns) {
    return;
  }
  columns.finish(shared);
  constexpr int run = S::warps * InputColumns<classes>::columns;
#pragma unroll 1
  for (int n = begin + run; n < end; n += run) {
    columns.move_to(rows_block * S::m, n);
    columns.prepare();
    columns.draw();
    columns.load_w();
    columns.load_kept();
    columns.finish(shared);
  }
}

template <int classes>
void launch_shape(Launch& launch, HeadTask& task) {
  using S = HeadTile<classes>;
  const int blocks = divided_up(task.x.lines, S::m), multiprocessors = launch.multiprocessors();
  const int depth = task.dx == nullptr ? 1 : task.x.depth;
  // A column run of all warps, or of some where that leaves half of the device to the next kernel.
  int columns = S::warps * InputColumns<classes>::columns;
  while (columns > head_columns && 2 * blocks * divided_up(depth, columns / 2) <= multiprocessors) {
    columns /= 2;
  }
  const int runs = divided_up(depth, columns);
  task.slice = columns * divided_up(runs, std::clamp(multiprocessors / blocks, 1, runs));
  task.slices = divided_up(runs * columns, task.slice);
  const bool vectors =
      rows_on_vectors(task.x.data, task.x.stride) && rows_on_vectors(task.w.data, task.w.stride);
  run(launch, vectors ? head_kernel<classes, true> : head_kernel<classes, false>,
      dim3(static_cast<unsigned>(blocks * task.slices)), S::threads + 32,
      S::partial_floats * sizeof(float), task);
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
  const bool w_settled = launch_here.settled(*weight);
  task.settled = {launch_here.settled(*x), w_settled,
                  w_settled && launch_here.settled(*bias) && launch_here.settled(tensors.labels) &&
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
