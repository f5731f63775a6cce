// Softmax cross entropy and its gradient: a warp or a block for each row, and the last block adds
// up the rows.
#include <cmath>

#include <sinter/kernels/cuda/cross_entropy.cuh>
#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/last_block.cuh>
#include <sinter/kernels/cuda/loss_place.cuh>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/kernels/cuda/sums.cuh>

namespace sinter::cuda {
namespace {

template <class T>
struct Rows : LabelledRows<T> {
  std::int64_t rows_of_team;
  const double* total_weight;  // or null: each block finds it by itself
  double* partial;
};

// The loss of one row, known to its whole team. With log-probabilities l, probabilities p, label t,
// class weights w and smoothing s over C classes: loss = (1 - s) w_t (-l_t) + s / C * sum_c w_c
// (-l_c), as torch defines it.
template <class T, int threads, int vectors>
__device__ float loss_of_row(const Rows<T>& rows, const RowValues<T, threads, vectors>& x,
                             std::int64_t label, float scale, T* grad) {
  using Group = Team<threads>;
  const float most = largest(x, 1);
  float below = 0, of_largest = 0, weights = 0;
  each_column(
      [&](std::int64_t j, float value) {
        below += value == most ? 0.0f : exp_below<T>(value, most);
        of_largest += value == most ? 1.0f : 0.0f;
        weights += rows.smooth == 0 ? 0.0f : rows.weight(j);
      },
      x);
  const float rest = rest_of(most, Group::sum(below), Group::sum(of_largest));
  const float of_label = x.read(label);
  const float others = others_of(most, rest, of_label);
  const float log_sum = log1pf(rest);
  const float sharp = rows.sharp * rows.weight(label);
  float loss = sharp * (log_sum - (of_label - most));
  if (rows.smooth != 0) {
    weights = Group::sum(weights);
    float all = 0;
    each_column(
        [&](std::int64_t j, float value) { all += rows.weight(j) * (log_sum - (value - most)); },
        x);
    loss += rows.smooth * Group::sum(all);
  }
  if (grad != nullptr) {
    const RowSlope slope(rest, others, weights, sharp, rows.smooth, scale);
    store_row(
        grad,
        [&](std::int64_t j, float value) {
          const float weight = rows.smooth == 0 ? 0.0f : rows.weight(j);
          const float e = exp_below<T>(value, most);
          return j == label ? slope.at_label(e, weight) : slope.beside(e, weight);
        },
        x);
  }
  return loss;
}

// What the gradient of a row is multiplied by, and the sum of losses.
template <class T, int threads>
__device__ double scale_of_rows(const Rows<T>& rows) {
  if (rows.call.reduction != ops::Reduction::mean) {
    return 1;
  }
  double total = 0;
  if (rows.total_weight != nullptr) {
    total = *rows.total_weight;
  } else {
    for (std::int64_t row = threadIdx.x; row < rows.labels.integers.count;
         row += row_block<threads>) {
      total += rows.weight_of_row(row);
    }
    total = Team<row_block<threads>>::sum(total);
  }
  return total == 0 ? 0.0 : 1 / total;  // with nothing to average over, loss and gradient are 0
}

template <class T, int threads, int vectors>
__global__ void __launch_bounds__(row_block<threads>) cross_entropy_kernel(const Rows<T> rows) {
  using Group = Team<threads>;
  constexpr int block = row_block<threads>;
  constexpr int teams = block / threads;
  __shared__ double losses[teams];
  __shared__ std::int64_t bad_rows[teams];
  const CrossEntropy<T>& call = rows.call;
  const double scale = scale_of_rows<T, threads>(rows);
  const std::int64_t begin =
      (static_cast<std::int64_t>(blockIdx.x) * teams + Group::index()) * rows.rows_of_team;
  const std::int64_t room = call.labels.count - begin;
  double sum = 0;
  std::int64_t bad = no_position;
  for (std::int64_t k = 0; k < rows.rows_of_team && k < room; ++k) {
    const std::int64_t row = begin + k;
    const std::int64_t label = rows.labels[row];
    const RowValues<T, threads, vectors> logits(call.logits + row * call.classes, call.classes);
    T* const grad = call.grad == nullptr ? nullptr : call.grad + row * call.classes;
    const bool is_bad = rows.is_bad(label);
    float loss = 0;
    if (label != call.ignore_index && !is_bad) {
      loss = loss_of_row(rows, logits, label, static_cast<float>(scale), grad);
    } else if (grad != nullptr) {
      store_row(
          grad, [](std::int64_t, float) { return 0.0f; }, logits);
    }
    if (is_bad) {
      bad = bad == no_position ? row : bad;
      loss = NAN;  // for whoever reads it before the note
    }
    sum += loss;
    if (call.reduction == ops::Reduction::none && Group::rank() == 0) {
      store_loss(call.loss, row, loss);
    }
  }
  if (Group::rank() == 0) {
    losses[Group::index()] = sum;
    bad_rows[Group::index()] = bad;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int team = 1; team < teams; ++team) {
      sum += losses[team];
      bad = bad_rows[team] < bad ? bad_rows[team] : bad;
    }
    see_bad(bad);
    rows.partial[blockIdx.x] = sum;
  }
  if (!is_last_block(gridDim.x)) {
    return;
  }
  double total = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += block) {
    total += rows.partial[i];
  }
  total = Team<block>::sum(total);
  if (threadIdx.x == 0) {
    note_bad(call.fault, rows.labels, call.classes);
    if (call.reduction != ops::Reduction::none) {
      store_loss(call.loss, 0, static_cast<float>(total * scale));
    }
  }
}

}  // namespace

template <class T>
void cross_entropy(int device, const CrossEntropy<T>& call) {
  const std::int64_t count = call.labels.count;
  const double smooth =
      call.classes == 0 ? 0.0 : call.label_smoothing / static_cast<double>(call.classes);
  Rows<T> rows{{call,
                {call.labels},
                static_cast<float>(smooth),
                static_cast<float>(1 - call.label_smoothing)},
               1,
               nullptr,
               nullptr};
  // Up to so many rows, reading all labels in each block is quicker than a launch.
  constexpr std::int64_t few = 1024;
  Tensor total;
  if (call.reduction == ops::Reduction::mean && count > few) {
    total = Tensor::empty({1}, DType::float64, Device::cuda(device));
    run_sum(device, count, WeightOfRow<T>{rows}, Keep{total.raw<double>()});
    rows.total_weight = total.raw<double>();
  }
  const bool on_vectors = rows_on_vectors_of<T>(call.classes, call.logits, call.grad);
  with_row_values<T>(call.classes, on_vectors, [&]<int threads, int vectors>() {
    constexpr std::int64_t teams = row_block<threads> / threads;
    constexpr std::int64_t most_blocks = 2048;
    rows.rows_of_team = (count + teams * most_blocks - 1) / (teams * most_blocks);
    rows.rows_of_team = rows.rows_of_team < 1 ? 1 : rows.rows_of_team;
    const std::int64_t of_block = teams * rows.rows_of_team;
    const std::int64_t blocks = count == 0 ? 1 : (count + of_block - 1) / of_block;
    const Tensor partial = Tensor::empty({blocks}, DType::float64, Device::cuda(device));
    rows.partial = partial.raw<double>();
    cross_entropy_kernel<T, threads, vectors>
        <<<static_cast<unsigned>(blocks), row_block<threads>, 0, use(device)>>>(rows);
    check(cudaGetLastError(), "cross_entropy_kernel");
  });
}

template void cross_entropy(int, const CrossEntropy<SINTER_STORAGE>&);

}  // namespace sinter::cuda
