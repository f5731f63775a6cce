// The passes of batch norms over all elements: forward, and the gradient of the input.
#include <sinter/kernels/cuda/batch_norm.h>
#include <sinter/kernels/cuda/batch_norm_bodies.cuh>
#include <sinter/kernels/cuda/channels.cuh>

namespace sinter::cuda {
namespace {

template <class T, bool has_tail>
struct ForwardPass {
  const T* x;
  const T* residual;
  T* y;
  Normalising<T> by;
  Tail tail;

  using Storage = T;
  static constexpr int tensors = has_tail ? 4 : 2;
  using Constant = Channel;
  __device__ Constant constant(std::int64_t channel) const { return channel_of(by, channel); }
  template <int count>
  struct Loaded {
    Part<T, count> x, residual;
  };
  template <int count>
  __device__ Loaded<count> load(std::int64_t at) const {
    return {Part<T, count>::load_from(x + at), load_or_zeros<T, count>(residual, at)};
  }
  template <int count, class C>
  __device__ void finish(const Loaded<count>& loaded, std::int64_t at, const C& constant_of) const {
    Part<T, count> out;
#pragma unroll
    for (int e = 0; e < count; ++e) {
      out.value[e] = constant_of(e).z(loaded.x.value[e]) + loaded.residual.value[e];
    }
    if constexpr (has_tail) {
      go_through<T>(tail, at, out.value);
    }
    out.store_to(y + at);
  }
};

template <class T>
struct BackwardPass {
  const T* x;
  const T* dz;
  const float* sums;
  T* dx;
  Normalising<T> by;
  std::int64_t channels;
  double n;  // elements of a channel

  using Storage = T;
  static constexpr int tensors = 2;
  // dx = scale (dz - of_g - (x - mean) of_g_n)
  struct Constant {
    float mean, scale, of_g, of_g_n;
  };
  __device__ Constant constant(std::int64_t channel) const {
    const Channel c = channel_of(by, channel);
    if (sums == nullptr) {
      return {c.mean, c.weight * c.rstd, 0, 0};
    }
    const auto count = static_cast<float>(n);
    return {c.mean, c.weight * c.rstd, sums[channel] / count,
            sums[channels + channel] / count * c.rstd};
  }
  template <int count>
  struct Loaded {
    Part<T, count> x, dz;
  };
  template <int count>
  __device__ Loaded<count> load(std::int64_t at) const {
    return {Part<T, count>::load_from(x + at), Part<T, count>::load_from(dz + at)};
  }
  template <int count, class C>
  __device__ void finish(const Loaded<count>& loaded, std::int64_t at, const C& constant_of) const {
    Part<T, count> out;
#pragma unroll
    for (int e = 0; e < count; ++e) {
      const Constant c = constant_of(e);
      out.value[e] = c.scale * (loaded.dz.value[e] - c.of_g -
                                (sums == nullptr ? 0 : (loaded.x.value[e] - c.mean) * c.of_g_n));
    }
    out.store_to(dx + at);
  }
};

}  // namespace

template <class T>
void batch_norm_forward(int device, const Channels& of, const Normalising<T>& by, const T* x,
                        const T* residual, T* y, const ops::ActivationArgs& tail) {
  const auto run = [&]<bool has_tail>() {
    run_channel_pass(device, ForwardPass<T, has_tail>{x, residual, y, by, Tail(tail)}, of,
                     on_vectors_all(x, residual, y));
  };
  is_identity(tail) ? run.template operator()<false>() : run.template operator()<true>();
}

template <class T>
void batch_norm_backward(int device, const Channels& of, const Normalising<T>& by, const T* x,
                         const T* dz, const float* sums, T* dx) {
  run_channel_pass(
      device,
      BackwardPass<T>{x, dz, sums, dx, by, of.channels, static_cast<double>(of.items * of.space)},
      of, on_vectors_all(x, dz, dx));
}

template void batch_norm_forward(int, const Channels&, const Normalising<SINTER_STORAGE>&,
                                 const SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE*,
                                 const ops::ActivationArgs&);
template void batch_norm_backward(int, const Channels&, const Normalising<SINTER_STORAGE>&,
                                  const SINTER_STORAGE*, const SINTER_STORAGE*, const float*,
                                  SINTER_STORAGE*);

}  // namespace sinter::cuda
