// Mixed precision: matrix products in a 16-bit type around float32 parameters.
#pragma once

#include <memory>
#include <optional>

#include <sinter/runtime/dtype.h>
#include <sinter/runtime/tensor.h>

namespace sinter {

/// While it lives, on this thread: linear(), matmul() and convolutions take their operands in a
/// 16-bit type and give results of it, with sums in float32; softmax, norms, losses, sum() and
/// mean() work in and give float32; everything else keeps the type that it gets, and of two types
/// in an operator the wider one wins. docs/from_pytorch.md has a table.
///
///     const Autocast scope(DType::bfloat16);
///     Tensor loss = cross_entropy(model(x), labels);
///
/// Parameters and their gradients stay in float32. The 16-bit copy of a trained parameter is made
/// when a product first takes it and kept by the scope until the parameter changes. float64 is left
/// alone. A backward pass computes in the types of the forward pass, inside a scope or not. A scope
/// has to end on the thread that it began on.
class Autocast {
 public:
  /// float16 or bfloat16; none casts nothing, inside another scope too. Throws Error for others.
  explicit Autocast(std::optional<DType> dtype = DType::bfloat16);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// That of this thread's innermost scope.
  static std::optional<DType> dtype();

 private:
  friend Tensor product_operand(const Tensor& x);
  struct Copies;

  std::optional<DType> dtype_;
  std::shared_ptr<Copies> copies_;
  Autocast* outer_;
};

// What functions ask.
// ------------------------------------------------------------------------------

/// Whether a product casts operands of this type now.
bool is_autocast(DType dtype);
/// Whether both can be operands of one product: of one type, or about to be.
bool fit_one_product(const Tensor& a, const Tensor& b);
/// The operand of a product: x without its history, in the type of the scope, if there is one. The
/// function records x itself, whose gradient has the type of x. Undefined stays so.
Tensor product_operand(const Tensor& x);
/// Whether a scope wants x in float32.
bool wants_float32(const Tensor& x);
/// x in float32 where a scope wants a 16-bit x so; recorded.
Tensor in_float32(const Tensor& x);
/// Whether a and b are of different types, which a scope makes one.
bool is_widened(const Tensor& a, const Tensor& b);

}  // namespace sinter
