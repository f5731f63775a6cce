// The tape: records what is computed while it lives, and walks it backward. No tape, no recording:
// inference costs nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/runtime/generator.h>
#include <sinter/runtime/tensor.h>

namespace sinter {

class Backward;
class DeferredGradients;
class Tape;
struct Pass;

namespace detail {

/// An entry of the thread's stack of tapes, of which the latest records; null stands for none. It
/// may end out of order, and on another thread.
class TapeScope {
 public:
  explicit TapeScope(Tape* tape);
  ~TapeScope();
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

  struct Entry;

 private:
  std::shared_ptr<Entry> entry_;
};

}  // namespace detail

/// Records every differentiable function that this thread calls on values that need a gradient,
/// from construction to destruction; the latest tape of a thread records. A value belongs to its
/// tape: used on another one, or after its own has gone, it is an error that says so.
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Leaves d(loss)/d(leaf) in the gradient of every leaf that the loss depends on, and frees what
  /// was recorded. The first backward after an optimizer step overwrites gradients, further ones
  /// add to them. Throws Error unless `loss` is one element recorded here, and on a second call.
  void backward(const Tensor& loss);
  /// The same from a value of any shape, with the gradient that comes into it.
  void backward(const Tensor& value, const Tensor& gradient);

  /// Functions recorded so far.
  std::size_t size() const { return nodes_.size(); }
  /// The tape that records on this thread, or nullptr.
  static Tape* current();

  // What follows is for differentiable functions; see autograd/function.h.

  /// `generator` gave dropout its masks: its step advances at the end of backward.
  void uses(const std::shared_ptr<Generator>& generator);

 private:
  friend class Recording;
  friend class Backward;
  friend bool needs_gradient(const Tensor& x);

  /// What a gradient must be.
  struct Kind {
    Shape shape;
    DType dtype = DType::float32;
    Device device;
  };
  /// Whence an input of a node gets its value: another node, a leaf, or neither.
  struct Edge {
    std::int32_t node = -1;
    std::shared_ptr<Leaf> leaf;
    DType dtype = DType::float32;  ///< of a leaf when it was used
    Device device;

    bool wanted() const { return node >= 0 || leaf != nullptr; }
  };
  struct Node {
    std::string name;
    std::vector<Edge> inputs;
    std::function<void(Backward&)> backward;
    Kind kind;                                 ///< of the output
    Tensor gradient;                           ///< of the output, as far as it is known
    std::shared_ptr<const Pass> pass;          ///< that the output came out of
    std::shared_ptr<const std::string> layer;  ///< that recorded it, in an anomaly scope only
    int uses = 0;                              ///< by recorded functions
    bool is_through_pass = false;              ///< `gradient` is of what went into the pass
  };

  Kind kind_of(const Edge& edge) const;

  /// `gradient`: undefined for 1.
  void run(const Tensor& value, const Tensor& gradient);

  detail::TapeScope scope_{this};
  std::uint64_t id_;
  std::vector<Node> nodes_;
  std::vector<std::shared_ptr<Generator>> generators_;
  std::shared_ptr<DeferredGradients> deferred_;
  bool done_ = false;
};

/// Nothing is recorded on this thread while it lives: evaluation inside a training step.
class NoTape {
 private:
  detail::TapeScope scope_{nullptr};
};

}  // namespace sinter
