// The element-wise kernels of one storage type, over plain pointers to device memory. They are
// compiled once for each of float, float16 and bfloat16 (kernels/cuda/typed); kernels/cuda/*.cpp
// call them with tensors.
#pragma once

#include <cstdint>

#include <sinter/kernels/ops.h>

namespace sinter::cuda {

enum class Arithmetic : std::uint8_t { add, subtract, multiply, divide };

/// How an operand of lower rank or with dimensions of size 1 is walked under the result's shape.
struct Walk {
  int rank = 0;
  std::int64_t size[Shape::max_rank] = {};
  std::int64_t stride_a[Shape::max_rank] = {};
  std::int64_t stride_b[Shape::max_rank] = {};
};

/// y = dropout(act(x)) for n elements; y may be x.
template <class T>
void activation_forward(int device, const ops::ActivationArgs& args, const T* x, T* y,
                        std::int64_t n);
/// dx = dy * d(dropout(act(x)))/dx; dx may be dy or kept.
template <class T>
void activation_backward(int device, const ops::ActivationArgs& args, const T* kept, const T* dy,
                         T* dx, std::int64_t n);
/// z = x + bias, y = dropout(act(z)) for rows of `columns`; bias and z may be null, y or z may be
/// x.
template <class T>
void bias_activation(int device, const ops::ActivationArgs& args, const T* x, const T* bias,
                     std::int64_t columns, T* z, T* y, std::int64_t n);

/// y = a op b, both of n elements.
template <class T>
void arithmetic(int device, Arithmetic op, const T* a, const T* b, T* y, std::int64_t n);
/// y = a op b for operands that are broadcast.
template <class T>
void arithmetic(int device, Arithmetic op, const T* a, const T* b, T* y, std::int64_t n,
                const Walk& walk);
template <class T>
void affine(int device, const T* x, T* y, std::int64_t n, float scale, float shift);

/// y[j] = or += the sum over rows of x[row * columns + j], in an order that depends on the number
/// of rows only. `partial` has room for sum_rows_blocks(rows) * columns floats.
template <class T>
void sum_rows(int device, const T* x, std::int64_t rows, std::int64_t columns, float* partial, T* y,
              bool accumulate);
inline constexpr std::int64_t rows_in_group = 128;
constexpr std::int64_t sum_rows_blocks(std::int64_t rows) {
  return (rows + rows_in_group - 1) / rows_in_group;
}

/// `momentum` may be null: none is kept.
template <class T>
void sgd_update(int device, T* p, const T* g, T* momentum, std::int64_t n,
                const math::SgdConstants<double>& args);
template <class T>
void adam_update(int device, T* p, const T* g, T* m, T* v, std::int64_t n,
                 const math::AdamConstants<double>& args);

}  // namespace sinter::cuda
