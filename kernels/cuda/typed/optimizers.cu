// Parameter updates over flat buffers, one pass for all parameters.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/pass.cuh>

namespace sinter::cuda {
namespace {

struct Sgd : Anywhere {
  static constexpr int inputs = 2, outputs = 1;  // parameter and gradient
  math::SgdConstants<float> constants;
  __device__ void operator()(State&, const float (&x)[2], float (&y)[1]) const {
    y[0] = x[0];
    math::sgd_step(y[0], x[1], constants);
  }
};

struct SgdWithMomentum : Anywhere {
  static constexpr int inputs = 3, outputs = 2;  // parameter, gradient and velocity
  math::SgdConstants<float> constants;
  __device__ void operator()(State&, const float (&x)[3], float (&y)[2]) const {
    y[0] = x[0];
    y[1] = x[2];
    math::sgd_step(y[0], x[1], y[1], constants);
  }
};

struct Adam : Anywhere {
  static constexpr int inputs = 4, outputs = 3;  // parameter, gradient, mean and square
  math::AdamConstants<float> constants;
  __device__ void operator()(State&, const float (&x)[4], float (&y)[3]) const {
    y[0] = x[0];
    y[1] = x[2];
    y[2] = x[3];
    math::adam_step(y[0], x[1], y[1], y[2], constants);
  }
};

float narrow(double x) { return static_cast<float>(x); }

}  // namespace

template <class T>
void sgd_update(int device, T* p, const T* g, T* momentum, std::int64_t n,
                const math::SgdConstants<double>& c) {
  const math::SgdConstants<float> constants{narrow(c.lr), narrow(c.momentum), narrow(c.gain),
                                            narrow(c.weight_decay), c.nesterov};
  if (momentum == nullptr) {
    run_pass<NoMask, T>(device, {{p, g}, {p}, n}, Sgd{{}, constants}, {});
  } else {
    run_pass<NoMask, T>(device, {{p, g, momentum}, {p, momentum}, n},
                        SgdWithMomentum{{}, constants}, {});
  }
}

template <class T>
void adam_update(int device, T* p, const T* g, T* m, T* v, std::int64_t n,
                 const math::AdamConstants<double>& c) {
  const math::AdamConstants<float> constants{
      narrow(c.one_minus_beta1), narrow(c.beta2), narrow(c.one_minus_beta2), narrow(c.step_size),
      narrow(c.inverse_root),    narrow(c.eps),   narrow(c.weight_decay),    narrow(c.keep)};
  run_pass<NoMask, T>(device, {{p, g, m, v}, {p, m, v}, n}, Adam{{}, constants}, {});
}

template void sgd_update(int, SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE*, std::int64_t,
                         const math::SgdConstants<double>&);
template void adam_update(int, SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE*,
                          SINTER_STORAGE*, std::int64_t, const math::AdamConstants<double>&);

}  // namespace sinter::cuda
