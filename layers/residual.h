// Blocks around which their input goes unchanged.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

#include <sinter/layers/module.h>
#include <sinter/layers/sequential.h>

namespace sinter {

/// x + body(x), where the body is a row of layers whose output has the input's shape (He et al.,
/// "Deep residual learning for image recognition", 2016):
///
///     Sequential model{Linear{784, 64}, Residual{LayerNorm{64}, Linear{64, 128}, SwiGLU{}}};
///
/// Parameters are named "body.0.weight" and on.
class Residual : public Module {
  template <class M>
  static constexpr bool is_whole = std::derived_from<std::remove_cvref_t<M>, Residual> ||
                                   std::derived_from<std::remove_cvref_t<M>, Sequential>;

 public:
  Residual() = default;
  explicit Residual(Sequential body) : body_(std::move(body)) {}
  /// Residual{Residual{...}} is a copy.
  template <class First, class... More>
  requires(sizeof...(More) > 0 || !is_whole<First>) explicit Residual(First&& first,
                                                                      More&&... more) {
    body_.add(std::forward<First>(first));
    (body_.add(std::forward<More>(more)), ...);
  }

  Tensor forward(const Tensor& x) override;
  void members(Members& members) override;
  /// "residual(linear(4, 4) -> relu)"
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  Sequential& body() { return body_; }

 private:
  Sequential body_;
};

}  // namespace sinter
