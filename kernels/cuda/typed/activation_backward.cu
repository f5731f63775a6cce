// Activation and dropout, backward: the mask is drawn again.
#include <sinter/kernels/cuda/activation_bodies.cuh>
#include <sinter/kernels/cuda/kernels.h>

namespace sinter::cuda {

template <class T>
void activation_backward(int device, const ops::ActivationArgs& args, const T* kept, const T* dy,
                         T* dx, std::int64_t n) {
  const math::DropoutMask& mask = args.dropout.mask;
  const auto scale = static_cast<float>(mask.scale());
  const auto unscale = static_cast<float>(mask.unscale());
  with_activation(args.act, [&]<class A>(const A& act) {
    with_mask(math::drops_show(act) ? math::DropoutMask{} : mask, [&]<class Mask>(
                                                                      std::type_identity<Mask>) {
      using Body = Backward<A, T>;
      run_pass<Mask, T>(device, {{kept, dy}, {dx}, n}, Body{{}, act, scale, unscale}, args.dropout,
                        TwoShapes<Body, Mask>{"activation_backward", A::name, name_of(dtype_of<T>),
                                              dx != dy && dx != kept});
    });
  });
}

template void activation_backward(int, const ops::ActivationArgs&, const SINTER_STORAGE*,
                                  const SINTER_STORAGE*, SINTER_STORAGE*, std::int64_t);

}  // namespace sinter::cuda
