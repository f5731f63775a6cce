// The nodes of an ONNX graph, as modules add them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <variant>
#include <vector>

#include <sinter/kernels/math/activations.h>
#include <sinter/layers/module.h>

namespace sinter {

/// What a node does beside its inputs: a whole number, a real number, or sizes.
struct OnnxAttribute {
  std::string_view name;
  std::variant<std::int64_t, double, std::span<const std::int64_t>> value;
};

struct OnnxNode {
  std::string name, op;
  std::vector<std::string> inputs, outputs;
  std::string attributes;  ///< as the file has them
};

/// What the file holds as a value; floating elements are written as float32.
struct OnnxInitializer {
  std::string name;
  Tensor value;
};

/// The shape and type of a value while the graph is made. The first size may be another one when it
/// runs.
struct OnnxValue {
  Shape shape;
  DType dtype;
};

/// Module::onnx says with it what Module::forward computes, value by value, in eval mode:
///
///   Tensor forward(const Tensor& x) override { return out(relu(in(x))) + x; }
///   std::string onnx(OnnxGraph& graph, const std::string& x) override {
///     return graph.node("Add", {graph.run(out, graph.activation(math::ReLU{}, graph.run(in, x))),
///                               x});
///   }
///
/// Values are known by their names; those of nodes are made of the module's place in the model.
class OnnxGraph {
 public:
  /// Runs the model once on zeros, to know the input of every module. `type` is that of the input.
  OnnxGraph(Module& model, const Shape& input, std::optional<DType> type,
            std::set<std::string> taken_names);

  /// The nodes of `module`, which members() names, for the value x.
  std::string run(Module& module, const std::string& x);
  std::string activation(const math::AnyActivation& act, const std::string& x);
  /// One node of operator set 17. An input that is "" is left out.
  std::string node(std::string_view op, std::initializer_list<std::string_view> inputs,
                   std::initializer_list<OnnxAttribute> attributes = {});
  /// The same for an operator with several results.
  std::vector<std::string> node(std::string_view op, std::initializer_list<std::string_view> inputs,
                                std::initializer_list<OnnxAttribute> attributes, int results);

  /// A parameter or buffer of the model under its own name; "" where it is absent.
  std::string parameter(const Parameter& parameter);
  std::string buffer(const Buffer& buffer);
  std::string constant(const Tensor& value);
  /// A scalar, float32.
  std::string number(double value);
  /// A list of int64, as Reshape takes its sizes.
  std::string sizes(std::span<const std::int64_t> values);

  /// What `module` was called with as a part of the model. Throws Error where it was not called as
  /// module(x), or was with inputs of several shapes.
  const OnnxValue& input_of(const Module& module) const;
  /// What the model as a whole gives.
  const OnnxValue& output() const { return output_; }
  /// The module whose nodes are being added, "layer 1.body.0 of the model, relu," for a sentence.
  std::string where() const;
  /// Throws Error for a class derived from a layer, which may compute something else than that.
  template <class Layer>
  void require_exactly(const Module& module) const {
    if (typeid(module) != typeid(Layer)) {
      refuse_derived();
    }
  }

  const std::vector<OnnxNode>& nodes() const { return nodes_; }
  const std::vector<OnnxInitializer>& initializers() const { return initializers_; }
  /// Names the value y, which the model gives, `name`.
  void name_output(const std::string& y, const std::string& name);

 private:
  struct Call {
    OnnxValue input;
    bool ambiguous;
  };

  [[noreturn]] void refuse_derived() const;
  std::string fresh(std::string_view what);
  std::string initializer(const std::string& name, const Tensor& value);

  std::map<const Module*, std::string> places_;
  std::map<const Module*, Call> calls_;
  std::map<const ParameterState*, std::string> parameters_;
  std::map<const std::byte*, std::string> buffers_;
  std::set<std::string> taken_, written_;
  std::vector<OnnxNode> nodes_;
  std::vector<OnnxInitializer> initializers_;
  const Module* current_ = nullptr;
  OnnxValue output_;
};

}  // namespace sinter
