// Arithmetic with broadcasting.
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/pass.cuh>

namespace sinter::cuda {
namespace {

template <Arithmetic Op>
__device__ float apply(float a, float b) {
  switch (Op) {
    case Arithmetic::add:
      return a + b;
    case Arithmetic::subtract:
      return a - b;
    case Arithmetic::multiply:
      return a * b;
    case Arithmetic::divide:
      break;
  }
  return a / b;
}

template <Arithmetic Op>
struct Binary : Anywhere {
  static constexpr int inputs = 2, outputs = 1;
  __device__ void operator()(State&, const float (&x)[2], float (&y)[1]) const {
    y[0] = apply<Op>(x[0], x[1]);
  }
};

struct Affine : Anywhere {
  static constexpr int inputs = 1, outputs = 1;
  float scale;
  float shift;
  __device__ void operator()(State&, const float (&x)[1], float (&y)[1]) const {
    y[0] = fmaf(x[0], scale, shift);
  }
};

template <Arithmetic Op, class T>
__global__ void broadcast_kernel(const T* a, const T* b, T* y, std::int64_t n, const Walk walk) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= n) {
    return;
  }
  std::int64_t rest = i, at_a = 0, at_b = 0;
  for (int d = walk.rank - 1; d >= 0; --d) {
    const std::int64_t place = rest % walk.size[d];
    rest /= walk.size[d];
    at_a += place * walk.stride_a[d];
    at_b += place * walk.stride_b[d];
  }
  y[i] = from_float<T>(apply<Op>(to_float(a[at_a]), to_float(b[at_b])));
}

template <class F>
void with_operation(Arithmetic op, F f) {
  switch (op) {
    case Arithmetic::add:
      return f.template operator()<Arithmetic::add>();
    case Arithmetic::subtract:
      return f.template operator()<Arithmetic::subtract>();
    case Arithmetic::multiply:
      return f.template operator()<Arithmetic::multiply>();
    case Arithmetic::divide:
      return f.template operator()<Arithmetic::divide>();
  }
}

}  // namespace

template <class T>
void arithmetic(int device, Arithmetic op, const T* a, const T* b, T* y, std::int64_t n) {
  with_operation(op, [&]<Arithmetic Op>() {
    run_pass<NoMask, T>(device, {{a, b}, {y}, n}, Binary<Op>{}, {});
  });
}

template <class T>
void arithmetic(int device, Arithmetic op, const T* a, const T* b, T* y, std::int64_t n,
                const Walk& walk) {
  if (n == 0) {
    return;
  }
  const auto blocks = static_cast<unsigned>((n + block_threads - 1) / block_threads);
  const cudaStream_t stream = use(device);
  with_operation(op, [&]<Arithmetic Op>() {
    broadcast_kernel<Op><<<blocks, block_threads, 0, stream>>>(a, b, y, n, walk);
  });
  check(cudaGetLastError(), "broadcast_kernel");
}

template <class T>
void affine(int device, const T* x, T* y, std::int64_t n, float scale, float shift) {
  run_pass<NoMask, T>(device, {{x}, {y}, n}, Affine{{}, scale, shift}, {});
}

template void arithmetic(int, Arithmetic, const SINTER_STORAGE*, const SINTER_STORAGE*,
                         SINTER_STORAGE*, std::int64_t);
template void arithmetic(int, Arithmetic, const SINTER_STORAGE*, const SINTER_STORAGE*,
                         SINTER_STORAGE*, std::int64_t, const Walk&);
template void affine(int, const SINTER_STORAGE*, SINTER_STORAGE*, std::int64_t, float, float);

}  // namespace sinter::cuda
