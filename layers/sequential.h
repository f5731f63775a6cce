// A model as a row of layers, built in C++ or from a line of text.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <sinter/autograd/functions.h>
#include <sinter/layers/activations.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/flatten.h>
#include <sinter/layers/glu.h>
#include <sinter/layers/linear.h>
#include <sinter/layers/module.h>
#include <sinter/layers/norms.h>

namespace sinter {

/// Layers one after the other. A Linear with an activation behind it, with or without dropout, runs
/// as one product and one pass over its result, and a norm in the norm's own pass, as a Softmax
/// with a Dropout behind it does.
/// Children are named as torch's nn.Sequential names them, in which a fused dropout is a module of
/// its own: after relu(drop_p=0.1) at "1" comes "3". Sequential{Sequential{...}} is a copy; add()
/// nests.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class... Layers>
  requires(sizeof...(Layers) > 1 || !(std::derived_from<std::remove_cvref_t<Layers>, Sequential> &&
                                      ...)) explicit Sequential(Layers&&... layers) {
    (add(std::forward<Layers>(layers)), ...);
  }
  Sequential(const Sequential& other);
  Sequential& operator=(const Sequential& other);
  Sequential(Sequential&&) = default;
  Sequential& operator=(Sequential&&) = default;

  /// "flatten -> linear(784,256) -> relu(drop_p=0.1) -> linear(256,10)": the names are those of the
  /// functions; sizes (and dropout's p) may be positional, every other argument is named
  /// (bias=false, drop_p=0.1). Throws Error that points at the first thing it cannot read.
  static Sequential parse(std::string_view text);
  /// Reads back with parse() where all layers have a text form, "relu -> sequential(relu)" with a
  /// Sequential in it.
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Appends a layer or a module of one's own, which is copied or moved in.
  template <class A>
  Sequential& add(const ActivationLayer<A>& layer) {
    return append(ActivationModule(layer.act, layer.drop_p));
  }
  Sequential& add(const Dropout& layer) { return append(DropoutModule(layer.p)); }
  Sequential& add(const GLU& layer) { return append(GLUModule(layer)); }
  template <class M>
  requires std::derived_from<std::remove_cvref_t<M>, Module> Sequential& add(M&& module) {
    return append(std::remove_cvref_t<M>(std::forward<M>(module)));
  }

  std::size_t size() const { return entries_.size(); }
  /// Layer i, counted from 0 as added. Throws Error out of range.
  Module& operator[](std::size_t i);

  Tensor forward(const Tensor& x) override;
  /// sinter::cross_entropy((*this)(x), labels, options); a Linear at the end is one op with the
  /// loss.
  Tensor cross_entropy(const Tensor& x, const Tensor& labels,
                       const CrossEntropyOptions& options = {});
  void members(Members& members) override;

 private:
  /// Owned through a pointer to the base, with the copy that the layer's own type makes.
  struct Entry {
    std::unique_ptr<Module> module;
    std::unique_ptr<Module> (*clone)(const Module&);
  };

  template <class M>
  Sequential& append(M module) {
    static_assert(std::copy_constructible<M>, "a layer must be copyable, for models are");
    module.train(training());
    entries_.push_back({std::make_unique<M>(std::move(module)), [](const Module& m) {
                          return std::unique_ptr<Module>(
                              std::make_unique<M>(static_cast<const M&>(m)));
                        }});
    members_changed();
    return *this;
  }
  /// Runs layers [0, end).
  Tensor forward_to(std::size_t end, const Tensor& x);
  /// Runs layer i, and those behind it that fuse with it; returns how many ran.
  std::size_t run(std::size_t i, Tensor& x);
  /// Errors of `work` name layer i.
  template <class Work>
  void in_layer(std::size_t i, Work work) const;
  std::vector<std::string> names() const;

  std::vector<Entry> entries_;
};

}  // namespace sinter
