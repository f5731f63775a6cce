// Bytes of rows picked by index become numbers.
#include <sinter/kernels/cuda/gather.cuh>
#include <sinter/kernels/cuda/vectors.cuh>

namespace sinter::cuda {
namespace {

// (x - center) * scale, where both are the sums of two floats: beside the center a difference has
// no digits to lose.
struct Normalise {
  float center, center_rest;
  float scale, scale_rest;

  Normalise(double c, double s)
      : center(static_cast<float>(c)),
        center_rest(static_cast<float>(c - static_cast<double>(center))),
        scale(static_cast<float>(s)),
        scale_rest(static_cast<float>(s - static_cast<double>(scale))) {}

  __device__ float operator()(std::uint32_t byte) const {
    const float d = (static_cast<float>(byte) - center) - center_rest;
    return fmaf(d, scale, d * scale_rest);
  }
};

// A vector of results at a time.
template <class T>
struct InVectors {
  const std::uint8_t* bytes;
  T* y;
  std::int64_t columns;
  Normalise normalise;

  __device__ void operator()(std::int64_t from, std::int64_t to, std::int64_t part) const {
    std::uint32_t words[width<T> / 4];
    const auto* source =
        reinterpret_cast<const std::uint32_t*>(bytes + from * columns) + part * (width<T> / 4);
#pragma unroll
    for (int i = 0; i < width<T> / 4; ++i) {
      words[i] = source[i];
    }
    Vector<T> v;
#pragma unroll
    for (int i = 0; i < width<T>; ++i) {
      v.value[i] = normalise(words[i / 4] >> (8 * (i % 4)) & 0xffu);
    }
    store(y + to * columns + part * width<T>, v);
  }
  __device__ void clear(std::int64_t to, std::int64_t part) const {
    store(y + to * columns + part * width<T>, Vector<T>{});
  }
};

template <class T>
struct OneByOne {
  const std::uint8_t* bytes;
  T* y;
  std::int64_t columns;
  Normalise normalise;

  __device__ void operator()(std::int64_t from, std::int64_t to, std::int64_t part) const {
    y[to * columns + part] = from_float<T>(normalise(bytes[from * columns + part]));
  }
  __device__ void clear(std::int64_t to, std::int64_t part) const {
    y[to * columns + part] = from_float<T>(0.0f);
  }
};

}  // namespace

template <class T>
void gather_normalise(int device, const Picked& picked, const std::uint8_t* bytes,
                      std::int64_t columns, double center, double scale, T* y) {
  const Normalise normalise(center, scale);
  constexpr std::int64_t y_bytes = sizeof(T);
  if (fits(width<T>, bytes, columns) && fits(16, y, columns * y_bytes)) {
    run_gather(device, picked, columns / width<T>, InVectors<T>{bytes, y, columns, normalise});
  } else {
    run_gather(device, picked, columns, OneByOne<T>{bytes, y, columns, normalise});
  }
}

template void gather_normalise(int, const Picked&, const std::uint8_t*, std::int64_t, double,
                               double, SINTER_STORAGE*);

}  // namespace sinter::cuda
