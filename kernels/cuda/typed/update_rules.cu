// Updates by the rules beside SGD and Adam, one pass over parameters, gradients and state.
#include <sinter/kernels/cuda/update.cuh>
#include <sinter/kernels/cuda/updating.cuh>

namespace sinter::cuda {
namespace {

// Parameter, gradient and state to parameter and state.
template <class Rule>
struct Updated : Updating<Updated<Rule>, Rule> {
  static constexpr int inputs = 2 + Rule::states, outputs = 1 + Rule::states;
  using State = Anywhere::State;

  __device__ void operator()(State&, const float (&x)[inputs], float (&y)[outputs]) const {
    Unfused parameter(x[0]), state[Rule::states];
#pragma unroll
    for (int k = 0; k < Rule::states; ++k) {
      state[k] = Unfused(x[2 + k]);
    }
    this->update.constants(parameter, Unfused(x[1]), state);
    y[0] = parameter.value;
#pragma unroll
    for (int k = 0; k < Rule::states; ++k) {
      y[1 + k] = state[k].value;
    }
  }
};

}  // namespace

template <class T, class Rule>
void rule_update(int device, T* p, const T* g, T* const* state, std::int64_t n,
                 const Update<Rule>& update) {
  Streams<T, Updated<Rule>::inputs, Updated<Rule>::outputs> streams{{p, g}, {p}, n};
  for (int k = 0; k < Rule::states; ++k) {
    streams.in[2 + k] = state[k];
    streams.out[1 + k] = state[k];
  }
  run_pass<NoMask, T>(device, streams, body_of<Updated<Rule>>(update), {});
}

#define SINTER_RULE(...)                                                                         \
  template void rule_update(int, SINTER_STORAGE*, const SINTER_STORAGE*, SINTER_STORAGE* const*, \
                            std::int64_t, const Update<math::__VA_ARGS__>&);
SINTER_RULE(MomentsRule<float>)
SINTER_RULE(AmsgradRule<float>)
SINTER_RULE(RmspropRule<float, false, false>)
SINTER_RULE(RmspropRule<float, true, false>)
SINTER_RULE(RmspropRule<float, false, true>)
SINTER_RULE(RmspropRule<float, true, true>)
SINTER_RULE(AdagradRule<float>)
#undef SINTER_RULE

}  // namespace sinter::cuda
