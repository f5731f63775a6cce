// The kernels of batch norms for one storage type, over plain pointers to device memory; see
// kernels/cuda/kernels.h.
#pragma once

#include <cstdint>
#include <optional>

#include <sinter/kernels/ops.h>

namespace sinter::cuda {

/// A tensor [N, C, ...]: `space` elements for each channel of an item. None of them is 0.
struct Channels {
  std::int64_t items;
  std::int64_t channels;
  std::int64_t space;

  std::int64_t numel() const { return items * channels * space; }
};

/// What the elements of each channel go through. Null: weights of ones, biases of zeros.
template <class T>
struct Normalising {
  const float* mean;
  const float* var;
  const T* weight;
  const T* bias;
  float eps;
};

/// ops::batch_norm_statistics. The running statistics may be null, all three.
template <class T>
struct BatchNormStatistics {
  const T* x;
  float* mean;
  float* var;
  float* running_mean;
  float* running_var;
  std::int64_t* num_batches_tracked;
  std::optional<double> momentum;
};
template <class T>
void batch_norm_statistics(int device, const Channels& of, const BatchNormStatistics<T>& call);

/// ops::batch_norm_forward; residual may be null.
template <class T>
void batch_norm_forward(int device, const Channels& of, const Normalising<T>& by, const T* x,
                        const T* residual, T* y, const ops::ActivationArgs& tail);

/// ops::batch_norm_backward_sums. Null: kept, dw and db where absent, and dz without a tail.
template <class T>
struct BatchNormSums {
  const T* x;
  const T* kept;
  const T* dy;
  T* dz;
  float* sums;
  T* dw;
  T* db;
  ops::WeightGradientFlags flags;
};
template <class T>
void batch_norm_backward_sums(int device, const Channels& of, const Normalising<T>& by,
                              const BatchNormSums<T>& call, const ops::ActivationArgs& tail);

/// ops::batch_norm_backward; sums may be null.
template <class T>
void batch_norm_backward(int device, const Channels& of, const Normalising<T>& by, const T* x,
                         const T* dz, const float* sums, T* dx);

}  // namespace sinter::cuda
