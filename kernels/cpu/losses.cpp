// Losses that write their own gradient.
#include <algorithm>
#include <numeric>
#include <vector>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/kernels/faults.h>
#include <sinter/kernels/one_by_one.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

std::vector<std::int64_t> read_labels(const Tensor& labels) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(labels.numel()));
  const auto copy = [&](const auto* from) { std::copy_n(from, out.size(), out.begin()); };
  switch (labels.dtype()) {
    case DType::int64:
      copy(labels.raw<std::int64_t>());
      break;
    case DType::int32:
      copy(labels.raw<std::int32_t>());
      break;
    default:
      copy(labels.raw<std::uint8_t>());
      break;
  }
  return out;
}

void check_labels(const std::vector<std::int64_t>& labels, std::int64_t classes,
                  std::int64_t ignore_index) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::int64_t label = labels[row];
    if ((label < 0 || label >= classes) && label != ignore_index) {
      throw Error(label_sentence({static_cast<std::int64_t>(row), label, classes},
                                 std::ranges::find(labels, 0) != labels.end()));
    }
  }
}

}  // namespace

void cross_entropy(In logits, In labels, In class_weights, Out loss, Out grad,
                   const ops::CrossEntropyArgs& args) {
  with_floating("cross_entropy", logits->dtype(), [&]<class T>(T) {
    const std::int64_t classes = logits->shape().last();
    const std::int64_t rows = labels->numel();
    const std::vector<std::int64_t> targets = read_labels(*labels);
    check_labels(targets, classes, args.ignore_index);
    const T* weights = class_weights->defined() ? class_weights->raw<T>() : nullptr;
    double total_weight = 0;
    for (const std::int64_t target : targets) {
      if (target != args.ignore_index) {
        total_weight += weights == nullptr ? 1.0 : static_cast<double>(weights[target]);
      }
    }
    // With nothing to average over, loss and gradient are 0.
    const double scale = args.reduction != ops::Reduction::mean ? 1.0
                         : total_weight == 0                    ? 0.0
                                                                : 1.0 / total_weight;
    const CrossEntropyRow<T> row_args{weights, args.label_smoothing, classes};
    std::vector<double> losses(static_cast<std::size_t>(rows));
    const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(classes, 1));
    parallel_shares(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> room(static_cast<std::size_t>(classes));
      for (std::int64_t row = begin; row < end; ++row) {
        const auto at = static_cast<std::size_t>(row);
        T* out = grad->defined() ? grad->raw<T>() + row * classes : nullptr;
        if (targets[at] != args.ignore_index) {
          losses[at] = kernels<T>().cross_entropy_row(row_args, logits->raw<T>() + row * classes,
                                                      targets[at], scale, out, room.data());
        } else if (out != nullptr) {
          std::fill_n(out, classes, T(0));
        }
      }
    });
    T* out = loss->raw<T>();
    if (args.reduction == ops::Reduction::none) {
      std::transform(losses.begin(), losses.end(), out, [](double l) { return static_cast<T>(l); });
    } else {
      out[0] = static_cast<T>(std::accumulate(losses.begin(), losses.end(), 0.0) * scale);
    }
  });
}

void linear_cross_entropy(In x, In weight, In bias, In labels, In class_weights, In kept, Out loss,
                          Out dlogits, Out dx, const ops::CrossEntropyArgs& loss_args,
                          const ops::ActivationArgs& args) {
  linear_cross_entropy_one_by_one(x, weight, bias, labels, class_weights, kept, loss, dlogits, dx,
                                  loss_args, args, linear_forward, cross_entropy,
                                  linear_backward_input);
}

void mse_loss(In x, In target, Out loss, Out grad, ops::Reduction reduction) {
  with_floating("mse_loss", x->dtype(), [&]<class T>(T) {
    const T* a = x->raw<T>();
    const T* b = target->raw<T>();
    const std::int64_t n = x->numel();
    const double scale =
        reduction == ops::Reduction::mean && n > 0 ? 1.0 / static_cast<double>(n) : 1.0;
    double total = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      if (reduction == ops::Reduction::none) {
        loss->raw<T>()[i] = static_cast<T>(d * d);
      }
      total += d * d;
      if (grad->defined()) {
        grad->raw<T>()[i] = static_cast<T>(2 * d * scale);
      }
    }
    if (reduction != ops::Reduction::none) {
      loss->raw<T>()[0] = static_cast<T>(total * scale);
    }
  });
}

}  // namespace sinter::cpu
