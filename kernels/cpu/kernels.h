// The inner loops of the CPU kernels: plain functions over pointers, each on one thread. They are
// compiled once for each instruction set (kernels/cpu/isa) and reached through this table; cutting
// work into pieces, threads and tensors are the callers' business (kernels/cpu/*.cpp).
#pragma once

#include <cstdint>

#include <sinter/kernels/math/activations.h>
#include <sinter/kernels/math/dropout.h>
#include <sinter/kernels/math/optimizers.h>

namespace sinter::cpu {

/// In what the tensor kept for backward was stored, if not in the kernel's own type.
enum class Stored : std::uint8_t { as_computed, as_float16, as_bfloat16 };

/// One activation (or the identity, the last of the table) with dropout after it.
template <class T>
struct ActivationKernels {
  /// y = dropout(act(x)) for n elements, the first of which has index `first` in the mask; x may be
  /// y. `act` points to the activation's struct.
  void (*forward)(const void* act, const math::DropoutMask& mask, std::uint64_t first, const T* x,
                  T* y, std::int64_t n);
  /// dx = dy * d(dropout(act(x)))/dx; `kept` is x or y, as the activation's derivative needs.
  void (*backward)(const void* act, const math::DropoutMask& mask, std::uint64_t first,
                   Stored stored, const T* kept, const T* dy, T* dx, std::int64_t n);
};

/// Weights of a cross entropy, over the rows of one call.
template <class T>
struct CrossEntropyRow {
  const T* class_weights = nullptr;  ///< or null: all 1
  double label_smoothing = 0.0;
  std::int64_t classes = 0;
};

/// y = f(x) for n elements; y may be x.
template <class T>
using Function = void (*)(const T* x, T* y, std::int64_t n);

template <class T>
struct Kernels {
  ActivationKernels<T> activations[math::activation_count + 1];
  /// The elementary functions that activations are made of, as this copy computes them.
  Function<T> exp, log, expm1, log1p, tanh, erf;

  /// c = a b or c += a b, row-major. a is [m, k], or [k, m] read transposed; b is [k, n], or [n, k]
  /// read transposed; ld* are the strides between their rows as stored.
  void (*gemm)(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const T* a, std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c,
               std::int64_t ldc);
  /// y += bias
  void (*add_bias)(const T* bias, T* y, std::int64_t n);
  /// y[j] += x[row * ld + j] for each row in turn.
  void (*add_rows)(const T* x, std::int64_t rows, std::int64_t n, std::int64_t ld, T* y);
  /// The loss of one row; where grad is given, it receives d(loss)/d(logits) * grad_scale. `room`
  /// is for args.classes doubles.
  double (*cross_entropy_row)(const CrossEntropyRow<T>& args, const T* logits, std::int64_t label,
                              double grad_scale, T* grad, double* room);
  /// y = (x - center) * scale
  void (*normalise)(const std::uint8_t* x, double center, double scale, T* y, std::int64_t n);
  /// `momentum` may be null: none is kept.
  void (*sgd)(const math::SgdConstants<double>& args, T* p, const T* g, T* momentum,
              std::int64_t n);
  void (*adam)(const math::AdamConstants<double>& args, T* p, const T* g, T* m, T* v,
               std::int64_t n);
};

/// What gemm packs operands into: memory of the calling thread until its next call, aligned to 64
/// bytes and kept for later ones. At most 1 MiB is asked for. Throws Error if there is none.
void* packing_room(std::int64_t bytes);

/// The table of the path that cpu_path() names; T is float or double.
template <class T>
const Kernels<T>& kernels();

// One pair for each copy that the build has.
namespace baseline {
const Kernels<float>& kernels_float();
const Kernels<double>& kernels_double();
}  // namespace baseline
namespace avx2 {
const Kernels<float>& kernels_float();
const Kernels<double>& kernels_double();
}  // namespace avx2
namespace avx512 {
const Kernels<float>& kernels_float();
const Kernels<double>& kernels_double();
}  // namespace avx512

}  // namespace sinter::cpu
