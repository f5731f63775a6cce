// What has parameters, names and a train/eval mode: the base of every layer and of a user's own
// modules.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sinter/layers/buffer.h>
#include <sinter/layers/parameter.h>
#include <sinter/runtime/generator.h>
#include <sinter/runtime/tensor.h>

namespace sinter {

class Module;
class OnnxGraph;

/// Visits what a module consists of; see Module::members.
class Members {
 public:
  virtual ~Members() = default;
  virtual void child(std::string_view name, Module& module) = 0;
  virtual void parameter(std::string_view name, Parameter& parameter) = 0;
  virtual void buffer(std::string_view, Buffer&) {}
};

/// A module of one's own holds its parts as plain members, names them, and says what it computes:
///
///   struct Block : Module {
///     Linear in{784, 256}, out{256, 10};
///     void members(Members& m) override { m.child("in", in); m.child("out", out); }
///     Tensor forward(const Tensor& x) override { return out(relu(in(x))); }
///   };
///
/// A parameter of its own is a member too, as in Parameter scale{{256}, {.low = 1, .high = 1}} (all
/// ones; uniform where low < high), named with m.parameter("scale", scale) and read as
/// scale.value(). Call a module as block(x), not block.forward(x): the call draws parameters that
/// were not drawn yet. What members() leaves out is never drawn, trained or saved.
/// Threads may call one module at once if it is in eval mode and was used before, and if its
/// forward() then changes no member.
/// What a module keeps beside its parameters is a Buffer, named with m.buffer("running_mean",
/// mean). Copying a module copies its parameters and buffers. Parameters are drawn when the whole
/// is first used (called, moved, or asked for its parameters), by their position in it, so the
/// order in which layers were constructed does not matter.
class Module {
 public:
  Module();
  Module(const Module& other);
  Module& operator=(const Module& other);
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  /// forward(x), after parameters are drawn where they were not yet.
  Tensor operator()(const Tensor& x);

  virtual Tensor forward(const Tensor& x) = 0;
  /// Names every child, parameter and buffer, in the order in which they are used.
  virtual void members(Members& members);
  /// As Sequential::parse takes it, "linear(784, 256)"; used in summaries and messages.
  virtual std::string text() const;
  /// Adds the nodes that compute this module in eval mode from the value named x, and returns the
  /// name of the result; see OnnxGraph. Throws Error where a module does not say how.
  virtual std::string onnx(OnnxGraph& graph, const std::string& x);

  /// Train or eval mode, for this module and everything in it.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Moves parameters and buffers; optimizers that hold them keep working. Gradients are dropped.
  void to(Device device);
  /// Converts the parameters to a floating type, and buffers as Buffer says. Gradients are dropped.
  void to(DType dtype);

  /// All parameters by name ("0.weight"; the names are torch's for the same nn.Sequential), laid
  /// out in one flat buffer.
  Parameters parameters();
  /// All buffers by name, likewise; the tensors share their elements.
  Buffers buffers();
  /// The random numbers of the model that this module belongs to. A generator set by the caller
  /// replaces it, for this module and everything in it.
  const std::shared_ptr<Generator>& generator();
  void set_generator(std::shared_ptr<Generator> generator);

  /// A table for an input of `input` (batch included): name, layer, output shape, parameters and
  /// their bytes. Runs one forward pass on zeros, of the parameters' type unless another is given,
  /// as a model that begins with an Embedding needs.
  std::string summary(const Shape& input, std::optional<DType> dtype = std::nullopt);

  /// The class [rows] (int64) with the largest logit, in eval mode and without a tape. A model that
  /// is in eval mode already may be asked by several threads at once.
  Tensor predict(const Tensor& x);
  /// Softmax of the logits [rows, classes], in eval mode and without a tape.
  Tensor predict_probabilities(const Tensor& x);

 protected:
  /// Call it after a child was added: what is new joins the model before its next use.
  void members_changed() { attached_ = false; }
  /// Makes sure that parameters are drawn and the generator is shared.
  void attach();

 private:
  friend class EvalScope;
  void adopt(const std::shared_ptr<Generator>& generator);

  /// Where a model that has not been used yet will get its generator: copies share it, so that they
  /// draw the same weights, whichever is used first.
  struct Origin;

  bool training_ = true;
  bool attached_ = false;
  std::shared_ptr<Origin> origin_;
  std::shared_ptr<Generator> generator_;
};

/// Puts a module and everything in it into eval mode and stops recording, until it goes.
class EvalScope {
 public:
  explicit EvalScope(Module& module);
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

namespace detail {
/// Calls visit(name, module) for `root` (named "") and every module below it, parents first.
void for_each_module(Module& root,
                     const std::function<void(const std::string& name, Module& module)>& visit);
using CallObserver =
    std::function<void(const Module& module, const Tensor& input, const Tensor& output)>;
/// Runs the module in eval mode on zeros, of the parameters' type unless another is given, and
/// tells `observer` of every module call, its own included.
void observe_calls(Module& root, const Shape& input, std::optional<DType> dtype,
                   const CallObserver& observer);
/// Who is told of module calls on this thread now, or nullptr.
const CallObserver* call_observer();
}  // namespace detail

}  // namespace sinter
