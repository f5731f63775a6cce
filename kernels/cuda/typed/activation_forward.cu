// Activation and dropout, forward.
#include <sinter/kernels/cuda/activation_bodies.cuh>
#include <sinter/kernels/cuda/kernels.h>

namespace sinter::cuda {

template <class T>
void activation_forward(int device, const ops::ActivationArgs& args, const T* x, T* y,
                        std::int64_t n) {
  const math::DropoutMask& mask = args.dropout.mask;
  const auto scale = static_cast<float>(mask.scale());
  with_activation(args.act, [&]<class A>(const A& act) {
    with_mask(mask, [&]<class Mask>(std::type_identity<Mask>) {
      using Body = Forward<A, T, Mask::drops>;
      run_pass<Mask, T>(
          device, {{x}, {y}, n}, Body{{}, act, scale}, args.dropout,
          TwoShapes<Body, Mask>{"activation_forward", A::name, name_of(dtype_of<T>), x != y});
    });
  });
}

template void activation_forward(int, const ops::ActivationArgs&, const SINTER_STORAGE*,
                                 SINTER_STORAGE*, std::int64_t);

}  // namespace sinter::cuda
