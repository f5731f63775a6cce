// Gradients of small layers' weights, put off until somebody asks for one: then all of them are one
// launch, or part of the optimizer's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sinter/autograd/function.h>
#include <sinter/kernels/ops.h>

namespace sinter {

/// What one backward put off. A leaf whose gradient is among it is fresh and refers to it.
class DeferredGradients : public PendingGradient,
                          public std::enable_shared_from_this<DeferredGradients> {
 public:
  /// dw = dy^T x and db = the sum of dy over its rows, for leaves that may be null.
  struct Entry {
    std::string name;  ///< of the function, for messages
    Saved dy;          ///< [rows, out]
    Saved x;           ///< [..., in]
    std::weak_ptr<Leaf> weight;
    std::weak_ptr<Leaf> bias;
    ops::WeightGradientFlags flags = {};
  };

  /// Gradients that the leaves have already are added to.
  void add(Entry entry);
  /// Computes what leaves still refer to. Throws Error where an operand was written to since; then
  /// none of the leaves has a gradient.
  void materialise() override;
  /// What materialise() would compute, for an optimizer that takes it over: it has to drop() the
  /// leaves afterwards.
  const std::vector<Entry>& entries() const { return entries_; }
  /// dy and x of an entry, the latter as a matrix. Throw Error where it was written to since.
  static const Tensor& gradient_of(const Entry& entry) { return entry.dy.get(entry.name); }
  static Tensor input_of(const Entry& entry);

 private:
  bool is_pending(const std::shared_ptr<Leaf>& leaf) const;

  std::vector<Entry> entries_;
};

}  // namespace sinter
