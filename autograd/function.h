// How to write a differentiable function of one's own: compute the output, then say what its
// derivative is. For example
//
//   Tensor square(const Tensor& x) {
//     Tensor y = detached(x) * detached(x);
//     record("square", {x}, y, [x = Saved(x)](Backward& b) {
//       b.give(0, b.grad() * b.saved(x) * 2.0);
//     });
//     return y;
//   }
//
// The body computes on detached values, so that only the function itself is recorded. Inside a
// backward function nothing is recorded, and every function of the library may be called.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/autograd/tape.h>
#include <sinter/kernels/ops.h>

namespace sinter {

/// A tensor kept for backward. Reading it after an in-place write to its elements is an error that
/// names the function which kept it.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor) : tensor_(tensor.detach()), version_(tensor.version()) {}

  /// The tensor. Throws Error in the name of function `who` where it was written to since.
  const Tensor& get(const std::string& who) const;

 private:
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

/// A value came out of y = dropout(act(z)): with it, whoever uses y can take the gradient through
/// to z as it computes it.
struct Pass {
  ops::ActivationArgs args;
  Saved kept;  ///< z or y, as the activation's derivative needs
};

/// What a backward function is handed: the gradient of the output, and where those of the inputs
/// go. Inputs are numbered as they were given to record().
class Backward {
 public:
  /// The gradient that came into the output; its shape and type are the output's.
  const Tensor& grad() const {
    if (!grad_.defined()) {
      grad_ = Tensor::full(node_.kind.shape, 1.0, node_.kind.dtype, node_.kind.device);
    }
    return grad_;
  }
  /// Where a gradient of grad()'s shape and type can be written while grad() is read, element by
  /// element: grad() itself where nobody else has it, else a new tensor. To be called once, by who
  /// does not need grad() afterwards.
  Tensor over_grad() const;
  /// Whether grad() is the scalar 1 with which backward started, so that a factor can be skipped.
  bool grad_is_one() const { return grad_is_one_; }
  /// Whether anyone wants the gradient of this input. Skip the work where not.
  bool needs(int input) const;
  /// The kept tensor. Throws Error where it was written to since.
  const Tensor& saved(const Saved& saved) const { return saved.get(node_.name); }
  /// Hands over the gradient of an input, which has as many elements as the input; given twice, it
  /// is added. Not needed: dropped.
  void give(int input, const Tensor& gradient);
  /// The pass that this input came out of, if nobody else wants a gradient of the input, so that
  /// give_through_pass() may be called; else nullptr.
  const Pass* pass_below(int input) const;
  /// Hands over the gradient of what went into the pass below.
  void give_through_pass(int input, const Tensor& gradient);
  /// Whether grad() is the gradient of what went into the own pass.
  bool grad_is_through_pass() const { return grad_is_through_pass_; }
  /// Whether the gradients of a Linear's weight and bias (-1: none wanted here) may be left for
  /// defer_weights(): they are leaves, or not wanted.
  bool can_defer(int weight, int bias) const;
  /// dw = dy^T x and db = the sum of dy over its rows are computed with those of other layers, when
  /// they are first asked for or by the optimizer's step itself.
  void defer_weights(int weight, int bias, const Tensor& dy, const Saved& x);
  /// Lets `compute(gradient, accumulate)` write the gradient of an input of `shape` straight to
  /// where it is kept, or add to what is there. Not called where the input needs none.
  template <class Compute>
  void write(int input, const Shape& shape, Compute&& compute) {
    if (needs(input)) {
      Target target = target_of(input, shape);
      compute(target.gradient, target.accumulate);
      finish(input, target);
    }
  }

 private:
  friend class Tape;
  /// Where write() has a gradient computed.
  struct Target {
    Tensor gradient;
    bool accumulate = false;
    bool is_kept = false;  ///< it shares the elements of what is kept, so there is nothing to give
  };
  Target target_of(int input, const Shape& shape);
  void finish(int input, const Target& target);

  /// `grad`: undefined for the 1 that backward starts with.
  Backward(Tape& tape, Tape::Node& node, Tensor grad)
      : tape_(tape),
        node_(node),
        grad_is_one_(!grad.defined()),
        grad_(std::move(grad)),
        grad_is_through_pass_(node.is_through_pass) {}

  Tape& tape_;
  Tape::Node& node_;
  bool grad_is_one_;
  mutable Tensor grad_;  // the 1 is made when it is asked for
  bool grad_is_through_pass_;
};

/// Whether backward would want a gradient for `x` on the tape that records now.
bool needs_gradient(const Tensor& x);

/// `x` without its history, as a function's own computation takes it.
inline Tensor detached(const Tensor& x) { return x.detach(); }

/// A function about to be recorded: remembers where the inputs came from before the output is
/// computed, which an in-place function overwrites. Undefined inputs are allowed and need nothing.
class Recording {
 public:
  /// Throws Error for an input that belongs to another tape, or whose elements were written to in
  /// place through another handle.
  Recording(std::string_view name,
            std::initializer_list<std::reference_wrapper<const Tensor>> inputs);
  /// Whether there is a tape and an input needs a gradient. If not, there is nothing to keep.
  explicit operator bool() const { return tape_ != nullptr; }
  /// Makes `output` the value of this function. Call it only where the recording is on. With a
  /// `pass`, which `output` came out of, backward may be handed the gradient of what went into it:
  /// it has to ask grad_is_through_pass().
  void finish(Tensor& output, std::function<void(Backward&)> backward,
              std::shared_ptr<const Pass> pass = nullptr);
  /// The same for a function that overwrote the elements of its first input, which is `output`.
  void finish_in_place(Tensor& output, std::function<void(Backward&)> backward);
  /// Whether backward will want the gradient of this input: what only it needs is not kept if not.
  bool needs(int input) const;
  /// The pass that this input came out of, or nullptr. Others may yet want its gradient.
  const Pass* pass_of(int input) const;

 private:
  Tape* tape_ = nullptr;
  Tape::Node node_;
};

/// Records `output` as a function of `inputs`, if anybody wants its gradient.
template <class BackwardFunction>
void record(std::string_view name,
            std::initializer_list<std::reference_wrapper<const Tensor>> inputs, Tensor& output,
            BackwardFunction&& backward) {
  Recording recording(name, inputs);
  if (recording) {
    recording.finish(output, std::forward<BackwardFunction>(backward));
  }
}

}  // namespace sinter
