// Tensors scaled down to a norm, without the host knowing it.
#include <cmath>

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/pass.cuh>
#include <sinter/kernels/cuda/sums.cuh>

namespace sinter::cuda {
namespace {

// Of the elements of one vector, or of what there is of it at the end.
template <class T>
struct SquaresOfVector {
  const T* x;
  std::int64_t n;
  bool in_vectors;

  __device__ double operator()(std::int64_t i) const {
    const std::int64_t begin = i * width<T>;
    double sum = 0;
    if (in_vectors && begin + width<T> <= n) {
      const Vector<T> v = load(x + begin);
#pragma unroll
      for (const float value : v.value) {
        sum += square(value);
      }
    } else {
      for (std::int64_t j = begin; j < n && j < begin + width<T>; ++j) {
        sum += square(to_float(x[j]));
      }
    }
    return sum;
  }

 private:
  static __device__ double square(float value) {
    return static_cast<double>(value) * static_cast<double>(value);
  }
};

struct NoteSquares {
  Clipping clipping;
  bool is_last;

  __device__ void operator()(double sum) const {
    sum += *clipping.squares;
    *clipping.squares = sum;
    if (is_last) {
      const double unscale = clipping.scale == nullptr ? 1.0 : 1.0 / *clipping.scale;
      const double norm = sqrt(sum) * unscale;
      *clipping.norm = static_cast<float>(norm);
      *clipping.factor = static_cast<float>(math::clip_factor(norm, clipping.most) * unscale);
      if (clipping.found != nullptr) {
        *clipping.found = isfinite(norm) ? 0 : 1;
      }
    }
  }
};

struct ScaleBy : Anywhere {
  static constexpr int inputs = 1, outputs = 1;
  const float* factor;
  float value;

  __device__ bool is_idle() const { return *factor == 1; }
  __device__ ScaleBy begun() const { return {{}, factor, *factor}; }
  __device__ void operator()(State&, const float (&x)[1], float (&y)[1]) const {
    y[0] = x[0] == 0 ? x[0] : x[0] * value;  // some zeros are padding, and a norm may be NaN
  }
};

}  // namespace

template <class T>
void add_squares(int device, const T* x, std::int64_t n, const Clipping& clipping, bool is_last) {
  run_sum(device, (n + width<T> - 1) / width<T>, SquaresOfVector<T>{x, n, detail::on_vectors(x)},
          NoteSquares{clipping, is_last});
}

template <class T>
void scale_by(int device, T* x, std::int64_t n, const float* factor) {
  run_pass<NoMask, T>(device, {{x}, {x}, n}, ScaleBy{{}, factor, 1}, {});
}

template void add_squares(int, const SINTER_STORAGE*, std::int64_t, const Clipping&, bool);
template void scale_by(int, SINTER_STORAGE*, std::int64_t, const float*);

}  // namespace sinter::cuda
