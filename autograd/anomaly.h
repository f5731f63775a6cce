// Finds the op in which the first NaN or infinity of a run appears.
#pragma once

#include <memory>
#include <string>

#include <sinter/kernels/dispatch.h>
#include <sinter/runtime/error.h>

namespace sinter {

struct DetectAnomalyOptions {
  /// Infinities pass, for a model that makes them on purpose, as masked logits of -inf.
  bool nan_only = false;
};

/// What a DetectAnomaly scope throws.
class AnomalyError : public Error {
 public:
  using Error::Error;
};

/// While it lives, every op that this thread runs is looked at, forward, backward and in an
/// optimizer's step. The first that computes a NaN or an infinity throws AnomalyError with the op,
/// the layer and its place in the model, how many elements of which tensor are not finite, where
/// the first is, and whether the op's inputs were finite:
///
///     const DetectAnomaly anomaly;
///     trainer.fit(data);
///
/// As torch.autograd.detect_anomaly, which looks for NaN in backward only. Values are the same as
/// without it, but all of them are read once more: a step takes several times as long, a GPU waits
/// for the host after each op, and a CapturedStep runs eagerly. A graph cannot be recorded inside
/// the scope. Under a GradScaler gradients that overflow float16 are part of the plan, and are
/// reported all the same. Scopes of a thread may be nested, and the options of the latest count;
/// they may end in any order and on any thread.
class DetectAnomaly {
 public:
  explicit DetectAnomaly(const DetectAnomalyOptions& options = {});
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

  /// Whether this thread is inside a scope.
  static bool is_on() { return detail::op_watch() != nullptr; }

 private:
  std::shared_ptr<detail::OpWatch> watch_;
};

namespace detail {

/// A layer as sentences name it: its text and its place in the model. Null: none.
using LayerName = std::shared_ptr<const std::string>;

/// The layer whose forward runs on this thread; returns the one that it takes the place of. For
/// layers, inside a scope.
LayerName exchange_layer_in_anomaly(LayerName layer);

/// Looks at what a function is about to record; returns the layer that records it.
LayerName check_recorded(const std::string& function, const Tensor& output);

/// Looks at a gradient that the backward of `function` gave.
void check_given_gradient(const std::string& function, int input, const Tensor& gradient);
inline void check_given(const std::string& function, int input, const Tensor& gradient) {
  if (DetectAnomaly::is_on()) [[unlikely]] {
    check_given_gradient(function, input, gradient);
  }
}

/// A backward pass: while it lives, ops are those of the function that it entered last.
class BackwardInAnomaly {
 public:
  BackwardInAnomaly();
  ~BackwardInAnomaly();
  BackwardInAnomaly(const BackwardInAnomaly&) = delete;
  BackwardInAnomaly& operator=(const BackwardInAnomaly&) = delete;
  /// Both must outlive this, or the next call.
  void enter(const std::string& function, const LayerName& layer) const;
  /// "in backward of linear, recorded by linear(4, 3) "0"", for sentences; "in forward of ..."
  /// where there is none.
  static std::string place_of_op();

 private:
  struct Function {
    const std::string* name = nullptr;
    const LayerName* layer = nullptr;
  };
  static thread_local Function current;
  Function outer_;
};

}  // namespace detail
}  // namespace sinter
