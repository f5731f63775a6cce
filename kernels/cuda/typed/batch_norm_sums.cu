// What batch norms have to know of their channels: the statistics, and in backward the sums of the
// gradient.
#include <sinter/kernels/cuda/batch_norm.h>
#include <sinter/kernels/cuda/batch_norm_bodies.cuh>
#include <sinter/kernels/cuda/channels.cuh>

namespace sinter::cuda {
namespace {

// Mean and sum of squared differences from it, of n elements (Chan, Golub and LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances", 1979).
struct Moments {
  double n, mean, squares;
};
__device__ Moments combined(const Moments& a, const Moments& b) {
  if (a.n == 0 || b.n == 0) {
    return a.n == 0 ? b : a;
  }
  const double n = a.n + b.n, apart = b.mean - a.mean, share = b.n / n;
  return {n, a.mean + apart * share, a.squares + b.squares + apart * apart * (a.n * share)};
}
__device__ Moments from_lane_xor(const Moments& m, int mask) {
  return {__shfl_xor_sync(0xffffffffu, m.n, mask), __shfl_xor_sync(0xffffffffu, m.mean, mask),
          __shfl_xor_sync(0xffffffffu, m.squares, mask)};
}

template <class T>
struct Statistics {
  BatchNormStatistics<T> call;
  double momentum;  // or below 0: by the count of batches
  double n;         // elements of a channel

  using Storage = T;
  static constexpr int tensors = 1;
  struct Constant {};
  __device__ Constant constant(std::int64_t) const { return {}; }
  template <int count>
  using Loaded = Part<T, count>;
  template <int count>
  __device__ Loaded<count> load(std::int64_t at) const {
    return Loaded<count>::load_from(call.x + at);
  }

  // Of differences from the thread's first element: neither a mean far from 0 nor an element far
  // from all others takes digits from the rest.
  struct Sum {
    int n;
    float first, sum, squares;
  };
  using Value = Moments;
  template <int count, class C, class S>
  __device__ void add(const Loaded<count>& x, std::int64_t, const C&, const S& sum_of) const {
#pragma unroll
    for (int e = 0; e < count; ++e) {
      Sum& sum = sum_of(e);
      sum.first = sum.n == 0 ? x.value[e] : sum.first;
      const float d = x.value[e] - sum.first;
      sum.sum += d;
      sum.squares = fmaf(d, d, sum.squares);
      ++sum.n;
    }
  }
  __device__ static Value value(const Sum& sum) {
    if (sum.n == 0) {
      return nothing();
    }
    const double n = sum.n, mean = sum.sum / n;
    const double squares = sum.squares - sum.sum * mean;
    return {n, sum.first + mean, squares < 0 ? 0 : squares};
  }
  __device__ static Value nothing() { return {0, 0, 0}; }

  __device__ void launched() const {
    if (call.num_batches_tracked != nullptr) {
      ++*call.num_batches_tracked;
    }
  }
  __device__ void finish(std::int64_t channel, const Value& found) const {
    call.mean[channel] = static_cast<float>(found.mean);
    call.var[channel] = static_cast<float>(found.squares / n);
    if (call.running_mean != nullptr) {
      const double factor =
          momentum < 0 ? 1 / static_cast<double>(*call.num_batches_tracked) : momentum;
      const auto move = [factor](float& running, double to) {
        running = static_cast<float>((1 - factor) * running + factor * to);
      };
      move(call.running_mean[channel], found.mean);
      move(call.running_var[channel], found.squares / (n - 1));
    }
  }
};

struct GradientSums {
  double g, g_n;
};
__device__ GradientSums combined(const GradientSums& a, const GradientSums& b) {
  return {a.g + b.g, a.g_n + b.g_n};
}
__device__ GradientSums from_lane_xor(const GradientSums& s, int mask) {
  return {__shfl_xor_sync(0xffffffffu, s.g, mask), __shfl_xor_sync(0xffffffffu, s.g_n, mask)};
}

// The derivative of an activation from what was kept for it.
template <class T, int count>
struct Slopes {
  const Tail& tail;
  float (&value)[count];

  template <class A>
  __device__ __forceinline__ void operator()() const {
    const Backward<A, T> body{
        {}, Parameters<A>(tail.act.value), tail.mask.scale, tail.mask.unscale};
#pragma unroll
    for (int e = 0; e < count; ++e) {
      value[e] = body.derivative(Number<T>(value[e])).value;
    }
  }
};

template <class T, bool has_tail>
struct BackwardSums {
  BatchNormSums<T> call;
  Normalising<T> by;
  std::int64_t channels;
  Tail tail;

  using Storage = T;
  static constexpr int tensors = has_tail ? 3 : 2;
  using Constant = Channel;
  __device__ Constant constant(std::int64_t channel) const { return channel_of(by, channel); }
  template <int count>
  struct Loaded {
    Part<T, count> x, dy, kept;
  };
  template <int count>
  __device__ Loaded<count> load(std::int64_t at) const {
    Loaded<count> loaded;
    loaded.x = Part<T, count>::load_from(call.x + at);
    loaded.dy = Part<T, count>::load_from(call.dy + at);
    if constexpr (has_tail) {
      loaded.kept = load_or_zeros<T, count>(call.kept, at);
    }
    return loaded;
  }

  struct Sum {
    float g, g_n;
  };
  using Value = GradientSums;
  template <int count, class C, class S>
  __device__ void add(const Loaded<count>& loaded, std::int64_t at, const C& constant_of,
                      const S& sum_of) const {
    Part<T, count> dz = loaded.dy;
    if constexpr (has_tail) {
      float slope[count];
#pragma unroll
      for (int e = 0; e < count; ++e) {
        slope[e] = loaded.kept.value[e];
        if (tail.from_z) {
          slope[e] += constant_of(e).z(loaded.x.value[e]);
        }
      }
      go_back(tail, at, Slopes<T, count>{tail, slope}, slope, dz.value);
      dz.store_to(call.dz + at);
    }
#pragma unroll
    for (int e = 0; e < count; ++e) {
      sum_of(e).g += dz.value[e];
      sum_of(e).g_n = fmaf(dz.value[e], constant_of(e).normal(loaded.x.value[e]), sum_of(e).g_n);
    }
  }
  __device__ static Value value(const Sum& sum) { return {sum.g, sum.g_n}; }
  __device__ static Value nothing() { return {0, 0}; }

  __device__ void finish(std::int64_t channel, const Value& found) const {
    const auto put = [channel](T* gradient, double sum, bool add) {
      if (gradient != nullptr) {
        T& to = gradient[channel];
        to = from_float<T>(static_cast<float>(add ? to_float(to) + sum : sum));
      }
    };
    call.sums[channel] = static_cast<float>(found.g);
    call.sums[channels + channel] = static_cast<float>(found.g_n);
    put(call.db, found.g, call.flags.accumulate_bias);
    put(call.dw, found.g_n, call.flags.accumulate_weight);
  }
};

}  // namespace

template <class T>
void batch_norm_statistics(int device, const Channels& of, const BatchNormStatistics<T>& call) {
  const Statistics<T> body{call, call.momentum.value_or(-1),
                           static_cast<double>(of.items * of.space)};
  run_channel_sums(device, body, of, on_vectors_all(call.x), !call.momentum);
}

template <class T>
void batch_norm_backward_sums(int device, const Channels& of, const Normalising<T>& by,
                              const BatchNormSums<T>& call, const ops::ActivationArgs& tail) {
  const bool on_vectors = on_vectors_all(call.x, call.dy, call.kept, call.dz);
  const auto run = [&]<bool has_tail>() {
    run_channel_sums(device, BackwardSums<T, has_tail>{call, by, of.channels, Tail(tail)}, of,
                     on_vectors);
  };
  call.dz != nullptr ? run.template operator()<true>() : run.template operator()<false>();
}

template void batch_norm_statistics(int, const Channels&,
                                    const BatchNormStatistics<SINTER_STORAGE>&);
template void batch_norm_backward_sums(int, const Channels&, const Normalising<SINTER_STORAGE>&,
                                       const BatchNormSums<SINTER_STORAGE>&,
                                       const ops::ActivationArgs&);

}  // namespace sinter::cuda
