// From a tensor's element type to the type that kernels are compiled for.
#pragma once

#include <sinter/kernels/dispatch.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda {

/// Calls use(T{}) with T = float, float16 or bfloat16.
template <class Use>
auto with_storage(const char* op, DType dtype, Use use) {
  switch (dtype) {
    case DType::float32:
      return use(float{});
    case DType::float16:
      return use(float16{});
    case DType::bfloat16:
      return use(bfloat16{});
    default:
      throw Error(text(op, ": no CUDA kernel for elements of type ", dtype));
  }
}

/// For a gradient that is absent, or to which there is nothing to add.
inline void add_zero(InOut gradient, bool accumulate) {
  if (gradient->defined() && !accumulate) {
    gradient->fill(0);
  }
}

/// Null for an absent tensor.
template <class T>
T* raw_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw<T>() : nullptr;
}

}  // namespace sinter::cuda
