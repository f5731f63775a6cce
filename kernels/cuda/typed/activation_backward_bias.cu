// Activation and dropout, backward, and the sums of the gradient's columns in the same pass: a
// block walks down some rows of a strip of columns, a thread down those of eight columns, which
// share one group of the mask.
#include <sinter/kernels/cuda/activation_bodies.cuh>
#include <sinter/kernels/cuda/kernels.h>

namespace sinter::cuda {
namespace {

constexpr int groups_across = 32;  // of eight columns
constexpr int rows_at_once = 4;
constexpr int threads = groups_across * rows_at_once;

template <class T, class Body, class Mask>
struct Strips {
  const T* kept;
  const T* dy;
  T* dx;
  float* partial;  // [blocks down, columns]
  std::int64_t rows;
  std::int64_t rows_of_block;
  std::int64_t groups;  // in a row
  Body body;
  Mask mask;
};

// Eight elements of a row, of what was kept and of dy.
template <class T>
class Eight {
 public:
  template <class Body, class Mask>
  __device__ Eight(const Strips<T, Body, Mask>& strips, std::int64_t at) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      kept_[v] = load(strips.kept + at + v * width<T>);
      dy_[v] = load(strips.dy + at + v * width<T>);
    }
  }
  /// Stores dx and adds it to `sum`.
  template <class Body, class Mask>
  __device__ void finish(const Strips<T, Body, Mask>& strips, typename Mask::Begun begun,
                         std::int64_t at, std::uint32_t place, float (&sum)[8]) const {
    Lanes lanes{};
    if constexpr (Mask::drops) {
      lanes = strips.mask.group(begun, place);
    }
    auto nowhere = strips.body.at(0);
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      Vector<T> dx;
#pragma unroll
      for (int e = 0; e < width<T>; ++e) {
        const int column = v * width<T> + e;
        float y[1];
        strips.body(nowhere, {kept_[v].value[e], dy_[v].value[e]}, y);
        if constexpr (Mask::drops) {
          const std::uint32_t word = lanes.word[column / 2];
          const bool keep =
              column % 2 == 0 ? strips.mask.keeps_low(word) : strips.mask.keeps_high(word);
          y[0] = keep ? y[0] : 0.0f;
        }
        dx.value[e] = y[0];
        sum[column] += y[0];
      }
      store(strips.dx + at + v * width<T>, dx);
    }
  }

 private:
  static constexpr int vectors = 8 / width<T>;

  Vector<T> kept_[vectors];
  Vector<T> dy_[vectors];
};

template <class T, class Body, class Mask>
__global__ void __launch_bounds__(threads) strips_kernel(const Strips<T, Body, Mask> strips) {
  __shared__ float sums[rows_at_once][8 * groups_across];
  const int lane = static_cast<int>(threadIdx.x) % groups_across;
  const int down = static_cast<int>(threadIdx.x) / groups_across;
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * groups_across + lane;
  const std::int64_t top = blockIdx.y * strips.rows_of_block;
  const std::int64_t bottom = min(top + strips.rows_of_block, strips.rows);
  const auto begun = strips.mask.begin();
  float sum[8] = {};
  if (group < strips.groups) {
    const std::int64_t first = (top + down) * strips.groups + group;
    const std::int64_t step = rows_at_once * strips.groups;
    const int rows = static_cast<int>((bottom - top - down + rows_at_once - 1) / rows_at_once);
    std::int64_t at = 8 * first;
    auto place = static_cast<std::uint32_t>(first);  // of the group, as the mask counts them
    // dx may be dy, so the compiler will not load a row before the one above it is stored: two are
    // loaded here.
    int row = 0;
    for (; row + 1 < rows; row += 2) {
      const Eight<T> one(strips, at), other(strips, at + 8 * step);
      one.finish(strips, begun, at, place, sum);
      other.finish(strips, begun, at + 8 * step, place + static_cast<std::uint32_t>(step), sum);
      at += 16 * step;
      place += static_cast<std::uint32_t>(2 * step);
    }
    if (row < rows) {
      Eight<T>(strips, at).finish(strips, begun, at, place, sum);
    }
  }
#pragma unroll
  for (int column = 0; column < 8; ++column) {
    sums[down][column * groups_across + lane] = sum[column];  // in banks of their own
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 8 * groups_across; i += threads) {
    const std::int64_t column =
        8 * (static_cast<std::int64_t>(blockIdx.x) * groups_across + i % groups_across) +
        i / groups_across;
    if (column < 8 * strips.groups) {
      float total = 0;
#pragma unroll
      for (int k = 0; k < rows_at_once; ++k) {
        total += sums[k][i];
      }
      strips.partial[blockIdx.y * 8 * strips.groups + column] = total;
    }
  }
}

// Enough blocks for a GPU to be busy. By the sizes alone, as is the order of the sums.
std::int64_t rows_of_block(std::int64_t rows, std::int64_t across) {
  constexpr std::int64_t enough = 2048;
  std::int64_t of_block = 128;
  while (of_block > rows_at_once && across * ((rows + of_block - 1) / of_block) < enough) {
    of_block /= 2;
  }
  return of_block;
}

}  // namespace

template <class T>
Tensor activation_backward_bias(int device, const ops::ActivationArgs& args, const T* kept,
                                const T* dy, T* dx, std::int64_t rows, std::int64_t columns) {
  constexpr std::uint64_t longest = std::uint64_t{1} << 35;  // see LanesMask
  constexpr std::int64_t most_down = 65535;
  const math::DropoutMask& mask = args.dropout.mask;
  const std::int64_t groups = columns / 8;
  const std::int64_t across = (groups + groups_across - 1) / groups_across;
  const std::int64_t of_block = rows_of_block(rows, across);
  const std::int64_t down = (rows + of_block - 1) / of_block;
  const std::uint64_t first = args.dropout.first;
  if (columns % 8 != 0 || rows == 0 || columns == 0 || down > most_down || first % 8 != 0 ||
      first % longest + static_cast<std::uint64_t>(rows * columns) > longest ||
      mask.scheme != math::MaskScheme::lanes || !detail::on_vectors(kept) ||
      !detail::on_vectors(dy) || !detail::on_vectors(dx)) {
    return {};
  }
  Tensor partial = Tensor::empty({down, columns}, DType::float32, Device::cuda(device));
  const dim3 blocks(static_cast<unsigned>(across), static_cast<unsigned>(down));
  const auto* live_step =
      args.dropout.live_step.defined() ? args.dropout.live_step.raw<std::uint32_t>() : nullptr;
  with_activation(args.act, [&]<class A>(const A& act) {
    using Body = Backward<A, T>;
    const Body body{{}, act, static_cast<float>(mask.scale()), static_cast<float>(mask.unscale())};
    const auto launch = [&]<class Mask>(std::type_identity<Mask>) {
      strips_kernel<<<blocks, threads, 0, use(device)>>>(
          Strips<T, Body, Mask>{kept, dy, dx, partial.raw<float>(), rows, of_block, groups, body,
                                Mask(mask, first, live_step)});
      check(cudaGetLastError(), "strips_kernel");
    };
    if (math::drops_show(act) || mask.is_identity()) {
      launch(std::type_identity<NoMask>{});
    } else {
      launch(std::type_identity<LanesMask>{});
    }
  });
  return partial;
}

template Tensor activation_backward_bias(int, const ops::ActivationArgs&, const SINTER_STORAGE*,
                                         const SINTER_STORAGE*, SINTER_STORAGE*, std::int64_t,
                                         std::int64_t);

}  // namespace sinter::cuda
