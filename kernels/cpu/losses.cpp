// Losses that write their own gradient.
#include <algorithm>
#include <numeric>
#include <vector>

#include <sinter/kernels/cpu/integers.h>
#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/sums.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/kernels/faults.h>
#include <sinter/kernels/one_by_one.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

void check_labels(const char* who, const std::vector<std::int64_t>& labels, std::int64_t classes,
                  std::int64_t ignore_index) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::int64_t label = labels[row];
    if ((label < 0 || label >= classes) && label != ignore_index) {
      throw Error(label_sentence(who, {static_cast<std::int64_t>(row), label, classes},
                                 std::ranges::find(labels, 0) != labels.end()));
    }
  }
}

/// The rows of a loss by class numbers.
template <class T>
class LabelledRows {
 public:
  /// Throws Error for a label that is no class.
  LabelledRows(const char* who, const Tensor& labels, const Tensor& class_weights,
               std::int64_t classes, const ops::CrossEntropyArgs& args)
      : labels_(read_integers(labels)),
        weights_(class_weights.defined() ? class_weights.raw<T>() : nullptr),
        ignore_index_(args.ignore_index) {
    check_labels(who, labels_, classes, ignore_index_);
    double total = 0;
    for (std::int64_t row = 0; row < count(); ++row) {
      total += counts(row) ? weight(row) : 0.0;
    }
    // With nothing to average over, loss and gradient are 0.
    scale = args.reduction != ops::Reduction::mean ? 1.0 : total == 0 ? 0.0 : 1.0 / total;
  }

  double scale;  ///< of the sum of all losses, and of the gradients

  std::int64_t count() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t label(std::int64_t row) const { return labels_[static_cast<std::size_t>(row)]; }
  bool counts(std::int64_t row) const { return label(row) != ignore_index_; }
  double weight(std::int64_t row) const {
    return weights_ == nullptr ? 1.0 : static_cast<double>(weights_[label(row)]);
  }

 private:
  std::vector<std::int64_t> labels_;
  const T* weights_;
  std::int64_t ignore_index_;
};

}  // namespace

void cross_entropy(In logits, In labels, In class_weights, Out loss, Out grad,
                   const ops::CrossEntropyArgs& args) {
  with_floating("cross_entropy", logits->dtype(), [&]<class T>(T) {
    const std::int64_t classes = logits->shape().last();
    const LabelledRows<T> rows("cross_entropy", *labels, *class_weights, classes, args);
    const CrossEntropyRow<T> row_args{class_weights->defined() ? class_weights->raw<T>() : nullptr,
                                      args.label_smoothing, classes};
    std::vector<double> losses(static_cast<std::size_t>(rows.count()));
    const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(classes, 1));
    parallel_shares(rows.count(), grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> room(static_cast<std::size_t>(classes));
      for (std::int64_t row = begin; row < end; ++row) {
        T* out = grad->defined() ? grad->raw<T>() + row * classes : nullptr;
        if (rows.counts(row)) {
          losses[static_cast<std::size_t>(row)] =
              kernels<T>().cross_entropy_row(row_args, logits->raw<T>() + row * classes,
                                             rows.label(row), rows.scale, out, room.data());
        } else if (out != nullptr) {
          std::fill_n(out, classes, T(0));
        }
      }
    });
    T* out = loss->raw<T>();
    if (args.reduction == ops::Reduction::none) {
      std::transform(losses.begin(), losses.end(), out, [](double l) { return static_cast<T>(l); });
    } else {
      out[0] = static_cast<T>(std::accumulate(losses.begin(), losses.end(), 0.0) * rows.scale);
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

void nll_loss(In x, In labels, In class_weights, Out loss, Out grad,
              const ops::CrossEntropyArgs& args) {
  with_floating("nll_loss", x->dtype(), [&]<class T>(T) {
    const std::int64_t classes = x->shape().last();
    const LabelledRows<T> rows("nll_loss", *labels, *class_weights, classes, args);
    if (grad->defined()) {
      std::fill_n(grad->raw<T>(), grad->numel(), T(0));
    }
    double total = 0;
    for (std::int64_t row = 0; row < rows.count(); ++row) {
      double of_row = 0;
      if (rows.counts(row)) {
        const std::int64_t at = row * classes + rows.label(row);
        const double weight = rows.weight(row);
        of_row = -weight * static_cast<double>(x->raw<T>()[at]);
        if (grad->defined()) {
          grad->raw<T>()[at] = static_cast<T>(-weight * rows.scale);
        }
      }
      total += of_row;
      if (args.reduction == ops::Reduction::none) {
        loss->raw<T>()[row] = static_cast<T>(of_row);
      }
    }
    if (args.reduction != ops::Reduction::none) {
      loss->raw<T>()[0] = static_cast<T>(total * rows.scale);
    }
  });
}

void pointwise_loss(In x, In target, In weight, Out loss, Out grad,
                    const ops::PointwiseLossArgs& args) {
  with_floating("pointwise_loss", x->dtype(), [&]<class T>(T) {
    const T* const a = x->raw<T>();
    const T* const b = target->raw<T>();
    const T* const w = weight->defined() ? weight->raw<T>() : nullptr;
    const std::int64_t columns = w == nullptr ? 1 : weight->numel();
    T* const each = args.each ? loss->raw<T>() : nullptr;
    T* const slopes = grad->defined() ? grad->raw<T>() : nullptr;
    const double sum = std::visit(
        [&](const auto& of_element) {
          return sum_of_terms(x->numel(), [&](std::int64_t i) {
            const auto [value, slope] =
                math::loss_term(of_element, static_cast<double>(a[i]), static_cast<double>(b[i]),
                                w == nullptr ? 1.0 : static_cast<double>(w[i % columns]));
            if (each != nullptr) {
              each[i] = static_cast<T>(value * args.scale);
            }
            if (slopes != nullptr) {
              slopes[i] = static_cast<T>(slope * args.scale);
            }
            return value;
          });
        },
        args.of_element);
    if (!args.each) {
      loss->raw<T>()[0] = static_cast<T>(sum * args.scale);
    }
  });
}

}  // namespace sinter::cpu
