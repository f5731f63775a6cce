// Parameter updates over flat buffers, one pass for all parameters.
#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/pass.cuh>
#include <sinter/kernels/cuda/update.cuh>

namespace sinter::cuda {
namespace {

// What each update of a graph finds out when it begins: its constants, and whether to do anything.
template <class Rule, class Constants>
struct Updating : Anywhere {
  Update<Constants> update;

  __device__ bool is_idle() const {
    return update.fault != nullptr && *update.fault != no_position;
  }
  __device__ Rule begun() const {
    Rule rule;
    rule.update = {update.live != nullptr ? *update.live : update.constants};
    return rule;
  }
};

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

template <class Rule, class Constants>
Rule rule(const Update<Constants>& update) {
  Rule made;
  made.update = update;
  return made;
}

}  // namespace

template <class T>
void sgd_update(int device, T* p, const T* g, T* momentum, std::int64_t n,
                const SgdUpdate& update) {
  if (momentum == nullptr) {
    run_pass<NoMask, T>(device, {{p, g}, {p}, n}, rule<Sgd>(update), {});
  } else {
    run_pass<NoMask, T>(device, {{p, g, momentum}, {p, momentum}, n}, rule<SgdWithMomentum>(update),
                        {});
  }
}

template <class T>
void adam_update(int device, T* p, const T* g, T* m, T* v, std::int64_t n,
                 const AdamUpdate& update) {
  run_pass<NoMask, T>(device, {{p, g, m, v}, {p, m, v}, n}, rule<Adam>(update), {});
}

template void sgd_update(int, SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE*, std::int64_t,
                         const SgdUpdate&);
template void adam_update(int, SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE*,
                          SINTER_STORAGE*, std::int64_t, const AdamUpdate&);

}  // namespace sinter::cuda
