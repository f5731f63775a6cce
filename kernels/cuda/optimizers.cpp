// Parameter updates on CUDA tensors.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>

namespace sinter::cuda {

void sgd_update(InOut p, In g, InOut momentum, const math::SgdConstants<double>& args) {
  with_storage("sgd", p->dtype(), [&]<class T>(T) {
    sgd_update(p->device().index, p->raw<T>(), g->raw<T>(),
               momentum->defined() ? momentum->raw<T>() : nullptr, p->numel(), args);
  });
}

void adam_update(InOut p, In g, InOut m, InOut v, const math::AdamConstants<double>& args) {
  with_storage("adam", p->dtype(), [&]<class T>(T) {
    adam_update(p->device().index, p->raw<T>(), g->raw<T>(), m->raw<T>(), v->raw<T>(), p->numel(),
                args);
  });
}

}  // namespace sinter::cuda
