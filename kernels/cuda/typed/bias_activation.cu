// What follows a Linear's product: bias, activation and dropout.
#include <sinter/kernels/cuda/activation_bodies.cuh>
#include <sinter/kernels/cuda/kernels.h>

namespace sinter::cuda {

template <class T>
void bias_activation(int device, const ops::ActivationArgs& args, const T* x, const T* bias,
                     std::int64_t columns, T* z, T* y, std::int64_t n) {
  const math::DropoutMask& mask = args.dropout.mask;
  const auto scale = static_cast<float>(mask.scale());
  with_activation(args.act, [&]<class A>(const A& act) {
    with_mask(mask, [&]<class Mask>(std::type_identity<Mask>) {
      using Body = BiasForward<A, T, Mask::drops>;
      run_pass<Mask, T>(device, {{x}, {y, z}, n}, Body{act, scale, bias, columns}, args.dropout);
    });
  });
}

template void bias_activation(int, const ops::ActivationArgs&, const SINTER_STORAGE*,
                              const SINTER_STORAGE*, std::int64_t, SINTER_STORAGE*, SINTER_STORAGE*,
                              std::int64_t);

}  // namespace sinter::cuda
