// Parameter updates over flat buffers, one pass for all parameters.
#include <sinter/kernels/cuda/update.cuh>
#include <sinter/kernels/cuda/updating.cuh>

namespace sinter::cuda {
namespace {

struct Sgd : Updating<Sgd, math::SgdConstants<float>> {
  static constexpr int inputs = 2, outputs = 1;  // parameter and gradient
  __device__ void operator()(State&, const float (&x)[2], float (&y)[1]) const {
    y[0] = x[0];
    update_parameter(update.constants, x[1], y[0]);
  }
};

struct SgdWithMomentum : Updating<SgdWithMomentum, math::SgdConstants<float>> {
  static constexpr int inputs = 3, outputs = 2;  // parameter, gradient and velocity
  __device__ void operator()(State&, const float (&x)[3], float (&y)[2]) const {
    y[0] = x[0];
    y[1] = x[2];
    update_parameter(update.constants, x[1], y[0], y[1]);
  }
};

struct Adam : Updating<Adam, math::AdamConstants<float>> {
  static constexpr int inputs = 4, outputs = 3;  // parameter, gradient, mean and square
  __device__ void operator()(State&, const float (&x)[4], float (&y)[3]) const {
    y[0] = x[0];
    y[1] = x[2];
    y[2] = x[3];
    update_parameter(update.constants, x[1], y[0], y[1], y[2]);
  }
};

}  // namespace

template <class T>
void sgd_update(int device, T* p, const T* g, T* momentum, std::int64_t n,
                const SgdUpdate& update) {
  if (momentum == nullptr) {
    run_pass<NoMask, T>(device, {{p, g}, {p}, n}, body_of<Sgd>(update), {});
  } else {
    run_pass<NoMask, T>(device, {{p, g, momentum}, {p, momentum}, n},
                        body_of<SgdWithMomentum>(update), {});
  }
}

template <class T>
void adam_update(int device, T* p, const T* g, T* m, T* v, std::int64_t n,
                 const AdamUpdate& update) {
  run_pass<NoMask, T>(device, {{p, g, m, v}, {p, m, v}, n}, body_of<Adam>(update), {});
}

template void sgd_update(int, SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE*, std::int64_t,
                         const SgdUpdate&);
template void adam_update(int, SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE*,
                          SINTER_STORAGE*, std::int64_t, const AdamUpdate&);

}  // namespace sinter::cuda
