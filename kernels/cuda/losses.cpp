// Losses of CUDA tensors, which write their own gradient.
#include <algorithm>

#include <sinter/kernels/cuda/faults.h>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/tile/head.h>
#include <sinter/kernels/cuda/types.h>
#include <sinter/kernels/one_by_one.h>

namespace sinter::cuda {
namespace {

template <class T>
LossPlace<T> place_of(const char* op, const Tensor& loss) {
  if (loss.dtype() == dtype_of<T>) {
    return {loss.raw<T>(), nullptr};
  }
  sinter::check(loss.dtype() == DType::float32, op, ": the loss of ", dtype_of<T>,
                " elements must be ", dtype_of<T>, " or float32, got ", loss.dtype());
  return {nullptr, loss.raw<float>()};
}

/// All but logits and their number.
template <class T>
CrossEntropy<T> call_of(const char* op, const In& labels, const In& class_weights, const Out& loss,
                        const Out& grad, const ops::CrossEntropyArgs& args,
                        const FaultPlace& fault) {
  return {.logits = nullptr,
          .labels = {labels->address(), labels->dtype(), labels->numel()},
          .class_weights = raw_or_null<T>(*class_weights),
          .classes = 0,
          .loss = place_of<T>(op, *loss),
          .grad = raw_or_null<T>(*grad),
          .reduction = args.reduction,
          .label_smoothing = args.label_smoothing,
          .ignore_index = args.ignore_index,
          .fault = fault.note()};
}

void refuse_bad_labels(const char* who, const FaultPlace& fault, const Tensor& labels) {
  if (const auto found = fault.found()) {
    const auto all = labels.detach().to(Device::cpu()).to(DType::int64).to_vector<std::int64_t>();
    throw Error(label_sentence(who, *found, std::ranges::find(all, 0) != all.end()));
  }
}

}  // namespace

void cross_entropy(In logits, In labels, In class_weights, Out loss, Out grad,
                   const ops::CrossEntropyArgs& args) {
  const FaultPlace fault(logits->device());
  with_storage("cross_entropy", logits->dtype(), [&]<class T>(T) {
    CrossEntropy<T> call =
        call_of<T>("cross_entropy", labels, class_weights, loss, grad, args, fault);
    call.logits = logits->raw<T>();
    call.classes = logits->shape().last();
    cross_entropy(logits->device().index, call);
  });
  refuse_bad_labels("cross_entropy", fault, *labels);
}

void linear_cross_entropy(In x, In weight, In bias, In labels, In class_weights, In kept, Out loss,
                          Out dlogits, Out dx, const ops::CrossEntropyArgs& loss_args,
                          const ops::ActivationArgs& args) {
  if (tile::takes_head(*x, *weight)) {
    const FaultPlace fault(x->device());
    CrossEntropy<float> call = call_of<float>("linear_cross_entropy", labels, class_weights, loss,
                                              dlogits, loss_args, fault);
    call.classes = weight->size(0);
    tile::linear_cross_entropy(x, weight, bias, kept, dx, call,
                               {*labels, *class_weights, *loss, *dlogits}, args);
    return refuse_bad_labels("cross_entropy", fault, *labels);
  }
  const auto entropy = [](In logits, In of_rows, In weights, Out to, Out grad,
                          const ops::CrossEntropyArgs& how) {
    cross_entropy(logits, of_rows, weights, to, grad, how);
  };
  linear_cross_entropy_one_by_one(x, weight, bias, labels, class_weights, kept, loss, dlogits, dx,
                                  loss_args, args, linear_forward, entropy, linear_backward_input);
}

void nll_loss(In x, In labels, In class_weights, Out loss, Out grad,
              const ops::CrossEntropyArgs& args) {
  const FaultPlace fault(x->device());
  with_storage("nll_loss", x->dtype(), [&]<class T>(T) {
    CrossEntropy<T> call = call_of<T>("nll_loss", labels, class_weights, loss, grad, args, fault);
    call.logits = x->raw<T>();
    call.classes = x->shape().last();
    nll_loss(x->device().index, call);
  });
  refuse_bad_labels("nll_loss", fault, *labels);
}

void pointwise_loss(In x, In target, In weight, Out loss, Out grad,
                    const ops::PointwiseLossArgs& args) {
  with_storage("pointwise_loss", x->dtype(), [&]<class T>(T) {
    const PointwiseLoss<T> call{.x = x->raw<T>(),
                                .target = target->raw<T>(),
                                .weight = raw_or_null<T>(*weight),
                                .columns = weight->defined() ? weight->numel() : 1,
                                .n = x->numel(),
                                .loss = place_of<T>("pointwise_loss", *loss),
                                .grad = raw_or_null<T>(*grad)};
    pointwise_loss(x->device().index, call, args);
  });
}

}  // namespace sinter::cuda
