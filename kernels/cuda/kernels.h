// The kernels of one storage type, over plain pointers to device memory. They are compiled once for
// each of float, float16 and bfloat16 (kernels/cuda/typed); kernels/cuda/*.cpp call them with
// tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sinter/kernels/cuda/faults.h>
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
/// The same for rows of `columns` (dx may be dy). The sums of dx over groups of rows [groups,
/// columns], for sum_groups(), how many depends on the sizes only. Undefined, and nothing is done,
/// where there is no kernel for these tensors.
template <class T>
Tensor activation_backward_bias(int device, const ops::ActivationArgs& args, const T* kept,
                                const T* dy, T* dx, std::int64_t rows, std::int64_t columns);

/// y = x in another type.
template <class T>
void cast(int device, const T* x, float* y, std::int64_t n);
template <class T>
void cast(int device, const T* x, float16* y, std::int64_t n);
template <class T>
void cast(int device, const T* x, bfloat16* y, std::int64_t n);

/// y = a op b, both of n elements.
template <class T>
void arithmetic(int device, Arithmetic op, const T* a, const T* b, T* y, std::int64_t n);
/// y = a op b for operands that are broadcast.
template <class T>
void arithmetic(int device, Arithmetic op, const T* a, const T* b, T* y, std::int64_t n,
                const Walk& walk);
template <class T>
void affine(int device, const T* x, T* y, std::int64_t n, float scale, float shift);

/// The sums over groups of rows of x [rows, columns], for sum_groups(): `partial`
/// [sum_rows_blocks(rows), columns].
template <class T>
void sum_rows(int device, const T* x, std::int64_t rows, std::int64_t columns, float* partial);
inline constexpr std::int64_t rows_in_group = 128;
constexpr std::int64_t sum_rows_blocks(std::int64_t rows) {
  return (rows + rows_in_group - 1) / rows_in_group;
}
/// y[j] = or += the sum over groups of partial[group * columns + j], in an order that depends on
/// their number only; for both of two, or for the one whose `y` is not null.
template <class T>
struct GroupSums {
  const float* partial = nullptr;
  T* y = nullptr;
  bool accumulate = false;
};
template <class T>
void sum_groups(int device, const GroupSums<T>& a, const GroupSums<T>& b, std::int64_t groups,
                std::int64_t columns);

/// *y = or += the sum of n elements.
template <class T>
void sum_all(int device, const T* x, std::int64_t n, T* y, bool accumulate);

/// How the dimensions of a contiguous tensor are told apart when some are summed up: their sizes
/// and strides, the outer ones first.
struct Dimensions {
  int rank = 0;
  std::int64_t size[Shape::max_rank] = {};
  std::int64_t stride[Shape::max_rank] = {};
  std::int64_t count = 1;  // the product of the sizes

  void add(std::int64_t of_size, std::int64_t of_stride) {
    size[rank] = of_size;
    stride[rank++] = of_stride;
    count *= of_size;
  }
};
/// y[i] = or += the sum of x over `summed`, for each i of `kept`.
template <class T>
void sum_dimensions(int device, const T* x, const Dimensions& kept, const Dimensions& summed, T* y,
                    bool accumulate);

/// ops::softmax of each of `rows` rows, and its gradient, where dropout does not drop everything.
template <class T>
void softmax(int device, const T* x, std::int64_t rows, std::int64_t columns, T* y,
             const ops::SoftmaxArgs& args);
template <class T>
void softmax_backward(int device, const T* kept, const T* dy, std::int64_t rows,
                      std::int64_t columns, T* dx, const ops::SoftmaxArgs& args);
template <class T>
void argmax(int device, const T* x, std::int64_t rows, std::int64_t columns, std::int64_t* y);

/// ops::norm_forward, where dropout does not drop everything. Null: mean where none is taken,
/// weight of ones, bias of zeros.
template <class T>
struct NormForward {
  const T* x;
  const T* weight;
  const T* bias;
  T* y;
  float* mean;
  float* rstd;
  std::int64_t rows;
  std::int64_t columns;
  float eps;
  float over_columns;  ///< 1 / columns
};
template <class T>
void norm_forward(int device, const NormForward<T>& call, const ops::ActivationArgs& tail);

/// ops::norm_backward, as above. The gradients of weight and bias come as sums over groups of rows,
/// for sum_groups(); they and dx may be null.
template <class T>
struct NormBackward {
  const T* x;
  const T* weight;
  const float* mean;
  const float* rstd;
  const T* dy;
  T* dx;
  float* dw;
  float* db;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t rows_of_group;
  const T* bias;       ///< for a derivative at z
  float over_columns;  ///< 1 / columns
};
/// Groups are blocks, enough to fill a GPU; those of short rows are small.
constexpr std::int64_t norm_rows_of_group(std::int64_t rows, std::int64_t columns) {
  const std::int64_t most_groups = columns <= 1024 ? 512 : 128;
  const std::int64_t least_rows = columns <= 1024 ? 4 : 1;
  const std::int64_t of_group = (rows + most_groups - 1) / most_groups;
  return of_group < least_rows ? least_rows : of_group;
}
constexpr std::int64_t norm_groups(std::int64_t rows, std::int64_t columns) {
  const std::int64_t of_group = norm_rows_of_group(rows, columns);
  return (rows + of_group - 1) / of_group;
}
template <class T>
void norm_backward(int device, const NormBackward<T>& call, const ops::ActivationArgs& tail);

/// ops::glu_forward for dy null, else ops::glu_backward; columns of a half.
template <class T>
void glu(int device, const ops::ActivationArgs& args, const T* x, const T* dy, T* out,
         std::int64_t rows, std::int64_t columns);

/// Class numbers or indices: int64, int32 or uint8.
struct Integers {
  const void* data;
  DType dtype;
  std::int64_t count;
};

/// Where a loss goes: in the type of the elements, or in float32. The other is null.
template <class T>
struct LossPlace {
  T* stored;
  float* wide;
};

/// The arguments of ops::cross_entropy; class_weights and grad may be null.
template <class T>
struct CrossEntropy {
  const T* logits;
  Integers labels;
  const T* class_weights;
  std::int64_t classes;
  LossPlace<T> loss;
  T* grad;
  ops::Reduction reduction;
  double label_smoothing;
  std::int64_t ignore_index;
  FaultNote fault;
};
template <class T>
void cross_entropy(int device, const CrossEntropy<T>& call);
/// The same of log-probabilities.
template <class T>
void nll_loss(int device, const CrossEntropy<T>& call);

/// The tensors of ops::pointwise_loss; weight and grad may be null.
template <class T>
struct PointwiseLoss {
  const T* x;
  const T* target;
  const T* weight;
  std::int64_t columns;  ///< of weight
  std::int64_t n;
  LossPlace<T> loss;
  T* grad;
};
template <class T>
void pointwise_loss(int device, const PointwiseLoss<T>& call, const ops::PointwiseLossArgs& args);

/// Rows of a matrix of `bound` rows that are picked by index.
struct Picked {
  Integers indices;
  std::int64_t bound;
  FaultNote fault;
  int side;  ///< 1 for a launch that is recorded beside others (Graph::beside), else 0
};
/// y = (x - center) * scale for the bytes of the picked rows.
template <class T>
void gather_normalise(int device, const Picked& picked, const std::uint8_t* bytes,
                      std::int64_t columns, double center, double scale, T* y);
/// The picked rows of so many bytes each.
void gather_rows(int device, const Picked& picked, const std::byte* rows, std::int64_t row_bytes,
                 std::byte* y);

/// ops::embedding_backward for a weight of `rows` rows.
template <class T>
struct EmbeddingBackward {
  const T* dy;
  Integers indices;
  T* dw;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t padding_idx;
  bool accumulate;
};
template <class T>
void embedding_backward(int device, const EmbeddingBackward<T>& call);

/// ops::SkipArgs, or nulls; `choices`: how many live constants there are to choose from.
struct Skip {
  const std::int32_t* found = nullptr;
  const std::int64_t* skipped = nullptr;
  const std::int64_t* known = nullptr;
  std::int64_t choices = 1;
};
/// The constants of an update. In a captured graph `live` is where they are by the time that it
/// runs, and `fault` its note (FaultNote): if there is anything in it, nothing is updated.
template <class Constants>
struct Update {
  Constants constants;
  const Constants* live = nullptr;
  const std::int64_t* fault = nullptr;
  Skip skip = {};
};
using SgdUpdate = Update<math::SgdConstants<float>>;
using AdamUpdate = Update<math::AdamConstants<float>>;
/// `momentum` may be null: none is kept.
template <class T>
void sgd_update(int device, T* p, const T* g, T* momentum, std::int64_t n, const SgdUpdate& update);
template <class T>
void adam_update(int device, T* p, const T* g, T* m, T* v, std::int64_t n,
                 const AdamUpdate& update);

/// By a rule of kernels/math/update_rules.h, in float32; `state` is as many tensors as it has.
template <class T, class Rule>
void rule_update(int device, T* p, const T* g, T* const* state, std::int64_t n,
                 const Update<Rule>& update);

/// What clip_norm has found out: on the device, zeros at first.
struct Clipping {
  double* squares;  ///< of the tensors so far
  float* factor;    ///< that all elements take, once the last tensor has been seen
  float* norm;
  double most;
  const float* scale;   ///< that all elements have to be divided by, or null
  std::int32_t* found;  ///< 1 where the norm is not finite, else 0; or null
};
/// Adds the squares of n elements; with the last tensor's, norm and factor are known.
template <class T>
void add_squares(int device, const T* x, std::int64_t n, const Clipping& clipping, bool is_last);
template <class T>
void scale_by(int device, T* x, std::int64_t n, const float* factor);
/// ops::clip_value, of n elements.
template <class T>
void clip_value(int device, T* x, std::int64_t n, float limit);
/// ops::scale_update
void scale_update(int device, float* scale, std::int64_t* clean, std::int64_t* skipped,
                  const std::int32_t* found, const ops::ScaleUpdateArgs& args);

}  // namespace sinter::cuda
