// Elements held within a bound.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/pass.cuh>

namespace sinter::cuda {
namespace {

struct ClipTo : Anywhere {
  static constexpr int inputs = 1, outputs = 1;
  float limit;

  __device__ void operator()(State&, const float (&x)[1], float (&y)[1]) const {
    y[0] = x[0] > limit ? limit : x[0] < -limit ? -limit : x[0];  // NaN comes through
  }
};

}  // namespace

template <class T>
void clip_value(int device, T* x, std::int64_t n, float limit) {
  run_pass<NoMask, T>(device, {{x}, {x}, n}, ClipTo{{}, limit}, {});
}

template void clip_value(int, SINTER_STORAGE*, std::int64_t, float);

}  // namespace sinter::cuda
