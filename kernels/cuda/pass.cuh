// The one skeleton of all element-wise kernels: load a vector of each input, apply a pure function,
// store a vector of each output, with a dropout mask laid over the first output where asked for.
//
// A Body says what is computed:
//   static constexpr int inputs, outputs;
//   __device__ State at(std::int64_t index) const;   what the elements from `index` on begin with
//   __device__ void operator()(State&, const float (&x)[inputs], float (&y)[outputs]) const;
// and is called for one element after another. One whose work depends on what is in memory when the
// kernel begins says so:
//   __device__ bool is_idle() const;    there is nothing to do
//   __device__ Body begun() const;      what the rest of the thread computes with
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include <sinter/kernels/autotune.h>
#include <sinter/kernels/cuda/mask.cuh>
#include <sinter/kernels/cuda/unit.cuh>
#include <sinter/kernels/cuda/vectors.cuh>
#include <sinter/kernels/ops.h>
#include <sinter/runtime/cuda/check.h>

namespace sinter::cuda {

// Small blocks: a wave of them ends more evenly, and heavy formulas keep their registers.
inline constexpr int block_threads = 128;

/// The tensors of a pass, contiguous and of n elements each. An output that is null is not wanted.
template <class T, int Inputs, int Outputs>
struct Streams {
  const T* in[Inputs];
  T* out[Outputs];
  std::int64_t n;
};

/// A body whose elements do not depend on where they are.
struct Anywhere {
  struct State {};
  __device__ State at(std::int64_t) const { return {}; }
};

namespace detail {

template <class T, class Body, class Mask>
struct Pass {
  Streams<T, Body::inputs, Body::outputs> streams;
  Body body;
  Mask mask;
  std::int64_t index;  // of the first element, as the body is told
  int skip;            // of the first element in its group of eight
  bool in_vectors;     // every pointer is a multiple of 16 bytes, and the mask's groups as well
};

template <class T, class Body, class Mask, int Groups>
__device__ void whole_tile(const Pass<T, Body, Mask>& pass, const Body& body,
                           typename Mask::Begun begun, std::int64_t begin) {
  constexpr int vectors = 8 / width<T>;
  constexpr int stride = block_threads * width<T>;
  const std::int64_t mine = begin + static_cast<std::int64_t>(threadIdx.x) * width<T>;
  Vector<T> x[Groups][vectors][Body::inputs];
#pragma unroll
  for (int g = 0; g < Groups; ++g) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
#pragma unroll
      for (int i = 0; i < Body::inputs; ++i) {
        x[g][v][i] = load(pass.streams.in[i] + mine + (g * vectors + v) * stride);
      }
    }
  }
#pragma unroll
  for (int g = 0; g < Groups; ++g) {
    VectorLanes<T> lanes;
    if constexpr (Mask::drops) {
      lanes = lanes_of<T, block_threads>(
          pass.mask, begun, static_cast<std::uint32_t>(begin / 8) + g * block_threads, threadIdx.x);
    }
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t at = mine + (g * vectors + v) * stride;
      auto state = body.at(pass.index + at);
      Vector<T> y[Body::outputs];
#pragma unroll
      for (int e = 0; e < width<T>; ++e) {
        float in[Body::inputs], out[Body::outputs];
#pragma unroll
        for (int i = 0; i < Body::inputs; ++i) {
          in[i] = x[g][v][i].value[e];
        }
        body(state, in, out);
        if constexpr (Mask::drops) {
          const std::uint32_t word = lanes.word[v][e / 2];
          const bool keep = e % 2 == 0 ? pass.mask.keeps_low(word) : pass.mask.keeps_high(word);
          out[0] = keep ? out[0] : 0.0f;
        }
#pragma unroll
        for (int o = 0; o < Body::outputs; ++o) {
          y[o].value[e] = out[o];
        }
      }
#pragma unroll
      for (int o = 0; o < Body::outputs; ++o) {
        if (o == 0 || pass.streams.out[o] != nullptr) {
          store(pass.streams.out[o] + at, y[o]);
        }
      }
    }
  }
}

// The end of a tensor, and tensors that do not lie on vectors: element by element.
template <class T, class Body, class Mask>
__device__ void part_of_tile(const Pass<T, Body, Mask>& pass, const Body& body,
                             typename Mask::Begun begun, std::int64_t begin, std::int64_t end) {
#pragma unroll 1
  for (std::int64_t at = begin + threadIdx.x; at < end; at += block_threads) {
    float in[Body::inputs], out[Body::outputs];
#pragma unroll
    for (int i = 0; i < Body::inputs; ++i) {
      in[i] = to_float(pass.streams.in[i][at]);
    }
    auto state = body.at(pass.index + at);
    body(state, in, out);
    if constexpr (Mask::drops) {
      const std::int64_t place = pass.skip + at;
      const Lanes drawn = pass.mask.group(begun, static_cast<std::uint32_t>(place / 8));
      const std::uint32_t left = (place & 2) != 0 ? drawn.word[1] : drawn.word[0];
      const std::uint32_t right = (place & 2) != 0 ? drawn.word[3] : drawn.word[2];
      const std::uint32_t word = (place & 4) != 0 ? right : left;
      const bool keep = (place & 1) == 0 ? pass.mask.keeps_low(word) : pass.mask.keeps_high(word);
      out[0] = keep ? out[0] : 0.0f;
    }
#pragma unroll
    for (int o = 0; o < Body::outputs; ++o) {
      if (o == 0 || pass.streams.out[o] != nullptr) {
        pass.streams.out[o][at] = from_float<T>(out[o]);
      }
    }
  }
}

// Passes over one input need few registers: held to a full share each, a multiprocessor is full of
// warps, by which memory's latency is hidden.
template <class Body>
inline constexpr int least_blocks = Body::inputs == 1 ? resident_threads / block_threads : 1;

template <class Body>
inline constexpr bool begins = requires(const Body& body) {
  body.begun();
};

template <class Body>
__device__ decltype(auto) begun(const Body& body) {
  if constexpr (begins<Body>) {
    return body.begun();
  } else {
    return (body);
  }
}

template <class T, class Body, class Mask, int Groups>
__global__ void __launch_bounds__(block_threads, least_blocks<Body>)
    pass_kernel(const Pass<T, Body, Mask> pass) {
  if constexpr (begins<Body>) {
    if (pass.body.is_idle()) {
      return;
    }
  }
  const Body& body = begun(pass.body);
  const auto mask_begun = pass.mask.begin();
  constexpr std::int64_t tile = block_threads * 8 * Groups;
  const std::int64_t begin = blockIdx.x * tile;
  if (pass.in_vectors && begin + tile <= pass.streams.n) {
    whole_tile<T, Body, Mask, Groups>(pass, body, mask_begun, begin);
  } else {
    const std::int64_t end = begin + tile < pass.streams.n ? begin + tile : pass.streams.n;
    part_of_tile(pass, body, mask_begun, begin, end);
  }
}

template <class T, class Body, class Mask, int Groups>
void launch(cudaStream_t stream, const Pass<T, Body, Mask>& pass) {
  constexpr std::int64_t tile = block_threads * 8 * Groups;
  const auto blocks = static_cast<unsigned>((pass.streams.n + tile - 1) / tile);
  pass_kernel<T, Body, Mask, Groups><<<blocks, block_threads, 0, stream>>>(pass);
  check(cudaGetLastError(), "an element-wise kernel");
}

inline bool on_vectors(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

}  // namespace detail

/// A pass with one launch shape.
struct OneShape {
  template <class Launch>
  void operator()(int, std::int64_t, Launch launch) const {
    launch(std::integral_constant<int, 0>{});
  }
};

/// A pass that large tensors are timed for in a second shape, with twice the work for each thread:
/// formulas that wait for chains of special functions gain by it, others lose.
template <class Body, class Mask>
struct TwoShapes {
  const char* op;
  std::string_view act;
  std::string_view dtype;
  bool repeatable;  ///< no output is an input too

  template <class Launch>
  void operator()(int device, std::int64_t n, Launch launch) const {
    if constexpr (Mask::tuned) {
      static constinit LaunchChoice choice;
      const auto run = [&](int shape) {
        if (shape == 0) {
          launch(std::integral_constant<int, 0>{});
        } else {
          launch(std::integral_constant<int, 1>{});
        }
      };
      run(choice.pick(Device::cuda(device), n, {op, act, dtype, Mask::name}, 0, repeatable, run));
    } else {
      OneShape{}(device, n, launch);
    }
  }
};

/// Runs the body over all elements, on the stream of `device`. Of large passes `shapes` may try a
/// second launch shape, with twice the work for each thread.
template <class Mask, class T, class Body, class Shapes = OneShape>
void run_pass(int device, const Streams<T, Body::inputs, Body::outputs>& whole, const Body& body,
              const ops::DropoutArgs& dropout, const Shapes& shapes = {}) {
  // Within this many elements the groups of a mask share the upper half of their index.
  constexpr std::int64_t longest = std::int64_t{1} << 35;
  const cudaStream_t stream = use(device);
  const std::uint32_t* live_step =
      dropout.live_step.defined() ? dropout.live_step.raw<std::uint32_t>() : nullptr;
  for (std::int64_t done = 0; done < whole.n;) {
    const std::uint64_t first = dropout.first + static_cast<std::uint64_t>(done);
    const std::int64_t room = longest - static_cast<std::int64_t>(first % longest);
    const std::int64_t left = whole.n - done;
    const int skip = static_cast<int>(first % 8);
    detail::Pass<T, Body, Mask> pass{whole, body, Mask(dropout.mask, first, live_step),
                                     done,  skip, !Mask::drops || skip == 0};
    pass.streams.n = left < room ? left : room;
    for (const T*& p : pass.streams.in) {
      p += done;
      pass.in_vectors = pass.in_vectors && detail::on_vectors(p);
    }
    for (T*& p : pass.streams.out) {
      p = p == nullptr ? nullptr : p + done;
      pass.in_vectors = pass.in_vectors && detail::on_vectors(p);
    }
    const auto launch = [&](auto shape) {
      detail::launch<T, Body, Mask, shape.value + 1>(stream, pass);
    };
    if (pass.in_vectors) {
      shapes(device, pass.streams.n, launch);
    } else {  // both shapes would be timed for what they are not made for
      OneShape{}(device, pass.streams.n, launch);
    }
    done += pass.streams.n;
  }
}

}  // namespace sinter::cuda
