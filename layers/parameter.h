// The weights of a layer. A model's parameters and their gradients lie in one flat buffer each, so
// that clearing, clipping and updating them is one pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinter/runtime/generator.h>
#include <sinter/runtime/tensor.h>

namespace sinter {

/// Initial values: uniform in [low, high), or a constant where both are equal; or, with a deviation
/// above 0, normal around 0.
struct Initializer {
  double low = 0.0;
  double high = 0.0;
  double deviation = 0.0;
  std::int64_t zero_row = -1;  ///< of the first dimension: zeros whatever the others are, or none
};

/// The values and gradients of a model's parameters of one type, each parameter at a boundary of
/// 256 bytes.
struct FlatBuffer {
  Tensor values;     ///< [elements], padding included
  Tensor gradients;  ///< the same layout
};

/// A parameter as its owner, an optimizer and a file share it. `value` is replaced when the model
/// moves; who keeps this state keeps up with it.
struct ParameterState {
  Shape shape;
  DType dtype = DType::float32;
  Device device;
  Initializer initial;
  bool trainable = true;
  Tensor value;  ///< undefined until it is drawn
  std::shared_ptr<FlatBuffer> flat;
  std::int64_t offset = 0;  ///< of the first element in `flat`

  /// Draws the values: in float64 from (seed, ordinal, element), then rounded, so that they depend
  /// on nothing else.
  void initialise(Generator& generator);
  /// See Parameter::set_trainable.
  void set_trainable(bool on);
  /// Makes `tensor` the value; the gradient goes on living in the same leaf.
  void rebind(Tensor tensor);

 private:
  std::shared_ptr<Leaf> leaf_;
};

/// A layer's member. Copying a layer copies its values: a copied model is a deep copy.
class Parameter {
 public:
  /// An absent parameter, as a Linear without bias has.
  Parameter() = default;
  Parameter(const Shape& shape, Initializer initial);
  Parameter(const Parameter& other);
  Parameter& operator=(const Parameter& other);
  Parameter(Parameter&&) = default;
  Parameter& operator=(Parameter&&) = default;
  ~Parameter() = default;

  /// The values, undefined where the parameter is absent. Throws Error where it is not drawn yet.
  /// To overwrite them: Tensor v = p.value().detach(); v.copy_from(...).
  const Tensor& value() const;
  bool present() const { return state_ != nullptr; }
  /// Whether backward computes its gradient and optimizers change it.
  void set_trainable(bool trainable);
  const std::shared_ptr<ParameterState>& state() const { return state_; }

 private:
  std::shared_ptr<ParameterState> state_;
};

/// A parameter with its place in the model, "0.weight".
struct NamedParameter {
  std::string name;
  std::shared_ptr<ParameterState> state;

  const Tensor& value() const { return state->value; }
  Tensor grad() const { return state->value.grad(); }
  /// torch's requires_grad_(): whether backward computes its gradient and optimizers change it.
  void set_trainable(bool on) const { state->set_trainable(on); }
};
using Parameters = std::vector<NamedParameter>;

/// Whether there is a gradient that no optimizer step has consumed.
bool has_gradient(const NamedParameter& parameter);

/// Parameters [first, last) that have a gradient and lie side by side, padding included.
struct GradientRun {
  std::size_t first;
  std::size_t last;
  Tensor values;
  Tensor gradients;
};
/// The gradients of laid out parameters, in as few runs as possible, in order. What a backward has
/// put off is computed.
std::vector<GradientRun> gradient_runs(const Parameters& parameters);
/// The same of all laid out parameters, whether they have a gradient or not.
std::vector<GradientRun> value_runs(const Parameters& parameters);

/// Elements of all of them.
std::int64_t numel(const Parameters& parameters);
/// Elements from one parameter to the next in a flat layout: the count rounded up to 256 bytes.
std::int64_t padded_numel(const ParameterState& parameter);
/// Zeros that begin `place` KiB into a block of their own, so that buffers updated together do not
/// alias in a page: 0 for values, 1 for gradients, 2 and on for an optimizer's state.
Tensor flat_zeros(std::int64_t elements, DType dtype, Device device, int place);
/// Lays the parameters out in one flat buffer for each type, in order, keeping values and
/// gradients; does nothing where they are so already. All of them must have been drawn.
void lay_out_flat(const Parameters& parameters);
/// Moves values to `device` and `dtype`, where they are yet to be laid out. Gradients are dropped.
void move_parameters(const Parameters& parameters, Device device, DType dtype);

}  // namespace sinter
