// The channels of a tensor [N, C, ...]: sums over each of them, and passes over all elements that
// take something of their channel along.
//
// Where a channel is a column (there are N x C elements), a thread walks down the rows of some
// columns that lie side by side; else it walks through planes, or takes neighbours of one plane or
// two. `of_thread` elements at a time, where they lie on vectors.
//
// A Body says what is computed with elements [at, at + count):
//   using Storage;               of the elements
//   static constexpr int tensors;  that are read; or more, where registers are dear
//   struct Constant;             what is known of a channel
//   __device__ Constant constant(std::int64_t channel) const;
//   struct Loaded<count>;        what is read for them
//   __device__ Loaded<count> load<count>(std::int64_t at) const;
// and for a pass
//   __device__ void finish<count>(const Loaded<count>&, std::int64_t at, constant_of) const;
// where constant_of(e) is that of element at + e. A Body of sums has
//   struct Sum;                  of a thread, zeros at first
//   struct Value;                of many; Value combined(Value, Value), Value from_lane_xor(...)
//   __device__ void add<count>(const Loaded<count>&, std::int64_t at, constant_of, sum_of) const;
//   __device__ static Value value(const Sum&);
//   __device__ static Value nothing();
//   __device__ void finish(std::int64_t channel, const Value&) const;
// and, if there is something to do once, __device__ void launched() const.
#pragma once

#include <algorithm>
#include <cstdint>

#include <sinter/kernels/cuda/batch_norm.h>
#include <sinter/kernels/cuda/row_values.cuh>
#include <sinter/kernels/cuda/teams.cuh>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/tensor.h>

namespace sinter::cuda {
namespace detail {

inline constexpr int of_thread = 8;  // a group of the mask
inline constexpr int lanes = 32;
inline constexpr int sums_threads = 256, sums_down = sums_threads / lanes;
inline constexpr int pass_threads = 128, pass_down = pass_threads / lanes;

/// What a thread asks for before it works on it, in `count` elements: 128 bytes.
template <class Body, int count>
inline constexpr int at_once = [] {
  constexpr int bytes = Body::tensors * count * static_cast<int>(sizeof(typename Body::Storage));
  return count == 1 ? 4 : bytes >= 128 ? 1 : 128 / bytes;
}();

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Most tensors have fewer than 2^32 elements, and dividing by 64 bits takes four times as long.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) {
    return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  }
  return a / b;
}

template <class Body, int count>
struct Constants {
  typename Body::Constant of[count];

  __device__ Constants(const Body& body, std::int64_t first) {
#pragma unroll
    for (int e = 0; e < count; ++e) {
      of[e] = body.constant(first + e);
    }
  }
  __device__ typename Body::Constant operator()(int e) const { return of[e]; }
};

template <class Constant>
struct OneConstant {
  Constant of;

  __device__ Constant operator()(int) const { return of; }
};

template <class Sum>
struct OneSum {
  Sum& of;

  __device__ Sum& operator()(int) const { return of; }
};

/// Of elements that may reach into the next channel's plane.
template <class Constant>
struct TwoConstants {
  Constant first, second;
  std::int64_t left;  // elements that are in the first

  __device__ Constant operator()(int e) const { return e < left ? first : second; }
};

/// Calls use(loaded, at) for rows top, top + step, ... before `bottom`, some loaded at a time.
template <int count, class Body, class Use>
__device__ void walk_down(const Body& body, std::int64_t top, std::int64_t bottom,
                          std::int64_t step, std::int64_t columns, std::int64_t column, Use use) {
  constexpr int some = at_once<Body, count>;
  std::int64_t row = top;
  for (; row + (some - 1) * step < bottom; row += some * step) {
    typename Body::template Loaded<count> loaded[some];
#pragma unroll
    for (int k = 0; k < some; ++k) {
      loaded[k] = body.template load<count>((row + k * step) * columns + column);
    }
#pragma unroll
    for (int k = 0; k < some; ++k) {
      use(loaded[k], (row + k * step) * columns + column);
    }
  }
  for (; row < bottom; row += step) {
    const std::int64_t at = row * columns + column;
    use(body.template load<count>(at), at);
  }
}

template <class Body>
__device__ void note_launch(const Body& body) {
  if constexpr (requires { body.launched(); }) {
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
      body.launched();
    }
  }
}

// Sums over columns: block (x, y) those of part y of the rows in a strip of columns.
template <class Body, int count>
__global__ void __launch_bounds__(sums_threads, 2)
    column_sums_kernel(const Body body, const Channels of, std::int64_t rows_of_part,
                       typename Body::Value* partial) {
  using Value = typename Body::Value;
  __shared__ Value values[sums_down][lanes];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int down = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * lanes + lane) * count;
  const bool has_columns = column < of.channels;
  typename Body::Sum sums[count] = {};
  if (has_columns) {
    const Constants<Body, count> constants(body, column);
    const std::int64_t top = blockIdx.y * rows_of_part;
    const std::int64_t bottom = min(top + rows_of_part, of.items);
    walk_down<count>(body, top + down, bottom, sums_down, of.channels, column,
                     [&](const auto& loaded, std::int64_t at) {
                       body.template add<count>(loaded, at, constants,
                                                [&](int e) ->
                                                typename Body::Sum& { return sums[e]; });
                     });
  }
#pragma unroll
  for (int e = 0; e < count; ++e) {
    values[down][lane] = Body::value(sums[e]);
    __syncthreads();
    if (down == 0 && has_columns) {
      Value total = values[0][lane];
      for (int k = 1; k < sums_down; ++k) {
        total = combined(total, values[k][lane]);
      }
      if (partial == nullptr) {
        body.finish(column + e, total);
      } else {
        partial[blockIdx.y * of.channels + column + e] = total;
      }
    }
    __syncthreads();
  }
  note_launch(body);
}

// Sums over planes: block (x, y) those of part y of channel x.
template <class Body, int count>
__global__ void __launch_bounds__(sums_threads, 2)
    plane_sums_kernel(const Body body, const Channels of, std::int64_t groups_of_part,
                      typename Body::Value* partial) {
  constexpr int some = at_once<Body, count>;
  const std::int64_t channel = blockIdx.x;
  const std::int64_t in_plane = of.space / count;  // groups of `count` elements
  const std::int64_t begin = blockIdx.y * groups_of_part;
  const std::int64_t end = min(begin + groups_of_part, of.items * in_plane);
  const std::int64_t items_on = sums_threads / in_plane, groups_on = sums_threads % in_plane;
  std::int64_t group = begin + threadIdx.x;
  std::int64_t item = group / in_plane, place = group % in_plane;
  const auto go_on = [&] {
    group += sums_threads;
    item += items_on;
    place += groups_on;
    if (place >= in_plane) {
      place -= in_plane;
      ++item;
    }
  };
  const OneConstant<typename Body::Constant> constant{body.constant(channel)};
  typename Body::Sum sum = {};
  while (group < end) {
    typename Body::template Loaded<count> loaded[some];
    std::int64_t at[some];
#pragma unroll
    for (int k = 0; k < some; ++k) {
      at[k] = -1;
      if (group < end) {
        at[k] = (item * of.channels + channel) * of.space + place * count;
        loaded[k] = body.template load<count>(at[k]);
      }
      go_on();
    }
#pragma unroll
    for (int k = 0; k < some; ++k) {
      if (at[k] >= 0) {
        body.template add<count>(loaded[k], at[k], constant, OneSum<typename Body::Sum>{sum});
      }
    }
  }
  const auto total = Team<sums_threads>::all(
      Body::value(sum), [](const auto& a, const auto& b) { return combined(a, b); });
  if (threadIdx.x == 0) {
    if (partial == nullptr) {
      body.finish(channel, total);
    } else {
      partial[blockIdx.y * of.channels + channel] = total;
    }
  }
  note_launch(body);
}

// Adds up the parts of each channel: thread (j, k) parts k, k + 8, ... in turn, then thread (j, 0)
// those eight.
template <class Body>
__global__ void __launch_bounds__(sums_threads)
    finish_sums_kernel(const Body body, std::int64_t channels, std::int64_t parts,
                       const typename Body::Value* partial) {
  __shared__ typename Body::Value values[sums_down][lanes];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int down = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * lanes + lane;
  auto total = Body::nothing();
  if (channel < channels) {
#pragma unroll 4  // loads that do not wait for each other
    for (std::int64_t part = down; part < parts; part += sums_down) {
      total = combined(total, partial[part * channels + channel]);
    }
  }
  values[down][lane] = total;
  __syncthreads();
  if (down == 0 && channel < channels) {
    for (int k = 1; k < sums_down; ++k) {
      total = combined(total, values[k][lane]);
    }
    body.finish(channel, total);
  }
}

template <class Body, int count>
__global__ void __launch_bounds__(pass_threads)
    column_pass_kernel(const Body body, const Channels of, std::int64_t rows_of_block) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int down = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * lanes + lane) * count;
  if (column >= of.channels) {
    return;
  }
  const Constants<Body, count> constants(body, column);
  const std::int64_t top = blockIdx.y * rows_of_block;
  const std::int64_t bottom = min(top + rows_of_block, of.items);
  walk_down<count>(body, top + down, bottom, pass_down, of.channels, column,
                   [&](const auto& loaded, std::int64_t at) {
                     body.template finish<count>(loaded, at, constants);
                   });
}

// Planes of at least `count` elements.
template <class Body, int count>
__global__ void __launch_bounds__(pass_threads)
    plane_pass_kernel(const Body body, const Channels of, std::int64_t n) {
  const std::int64_t at =
      (static_cast<std::int64_t>(blockIdx.x) * pass_threads + threadIdx.x) * count;
  if (at >= n) {
    return;
  }
  const std::int64_t plane = quotient(at, of.space);
  const std::int64_t channel = plane - quotient(plane, of.channels) * of.channels;
  TwoConstants<typename Body::Constant> constants;
  constants.first = body.constant(channel);
  constants.left = (plane + 1) * of.space - at;
  if (constants.left < count) {
    constants.second = body.constant(channel + 1 == of.channels ? 0 : channel + 1);
  }
  if (at + count <= n) {
    body.template finish<count>(body.template load<count>(at), at, constants);
    return;
  }
#pragma unroll 1
  for (int e = 0; at + e < n; ++e) {
    body.template finish<1>(body.template load<1>(at + e), at + e,
                            OneConstant<typename Body::Constant>{constants(e)});
  }
}

}  // namespace detail

/// Whether tensors lie on vectors, all of them; null does.
template <class... P>
bool on_vectors_all(const P*... x) {
  return ((reinterpret_cast<std::uintptr_t>(x) % 16 == 0) && ...);
}

/// Calls body.finish() for each channel with what its elements come to, in an order that depends on
/// the sizes and on whether the tensors lie on vectors. `in_two`: by a kernel of its own, which
/// sees what body.launched() has done in the first.
template <class Body>
void run_channel_sums(int device, const Body& body, const Channels& of, bool on_vectors,
                      bool in_two = false) {
  using namespace detail;
  constexpr std::int64_t enough_blocks = 512, most_of_thread = 256, most_parts = 65535;
  const cudaStream_t stream = use(device);
  const bool columns = of.space == 1;
  const bool vectors = on_vectors && (columns ? of.channels : of.space) % of_thread == 0;
  const int count = vectors ? of_thread : 1;
  // What is cut into parts is rows for a column of threads, or groups for a block of them.
  const std::int64_t length = columns ? of.items : of.items * (of.space / count);
  const std::int64_t at_a_time = columns ? sums_down : sums_threads;
  const std::int64_t across = columns ? ceil_div(of.channels, lanes * count) : of.channels;
  const std::int64_t wanted = std::min(ceil_div(enough_blocks / (columns ? 2 : 1), across),
                                       ceil_div(length, 4 * at_a_time));
  const std::int64_t least = ceil_div(length, most_of_thread * at_a_time);
  const std::int64_t most = std::min(std::max(wanted, least), most_parts);
  const std::int64_t of_part = ceil_div(length, most), parts = ceil_div(length, of_part);
  const bool in_one = parts == 1 && !in_two;
  const Tensor room =
      in_one ? Tensor{}
             : Tensor::empty(
                   {parts * of.channels * static_cast<std::int64_t>(sizeof(typename Body::Value))},
                   DType::uint8, Device::cuda(device));
  auto* const partial = room.raw<typename Body::Value>();
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(parts));
  const auto launch = [&]<int n>() {
    if (columns) {
      column_sums_kernel<Body, n><<<grid, sums_threads, 0, stream>>>(body, of, of_part, partial);
    } else {
      plane_sums_kernel<Body, n><<<grid, sums_threads, 0, stream>>>(body, of, of_part, partial);
    }
  };
  vectors ? launch.template operator()<of_thread>() : launch.template operator()<1>();
  check(cudaGetLastError(), "channel_sums_kernel");
  if (!in_one) {
    finish_sums_kernel<<<static_cast<unsigned>(ceil_div(of.channels, lanes)), sums_threads, 0,
                         stream>>>(body, of.channels, parts, partial);
    check(cudaGetLastError(), "finish_sums_kernel");
  }
}

/// Calls body.finish() for all elements.
template <class Body>
void run_channel_pass(int device, const Body& body, const Channels& of, bool on_vectors) {
  using namespace detail;
  const cudaStream_t stream = use(device);
  if (of.space == 1 && on_vectors && of.channels % of_thread == 0) {
    constexpr std::int64_t enough_blocks = 1024;
    const std::int64_t across = ceil_div(of.channels, lanes * of_thread);
    const std::int64_t wanted =
        std::min(ceil_div(enough_blocks, across), ceil_div(of.items, 8 * pass_down));
    const std::int64_t of_block = ceil_div(of.items, wanted);
    const dim3 grid(static_cast<unsigned>(across),
                    static_cast<unsigned>(ceil_div(of.items, of_block)));
    column_pass_kernel<Body, of_thread><<<grid, pass_threads, 0, stream>>>(body, of, of_block);
  } else if (on_vectors && of.space >= of_thread) {
    const std::int64_t blocks = ceil_div(of.numel(), of_thread * pass_threads);
    plane_pass_kernel<Body, of_thread>
        <<<static_cast<unsigned>(blocks), pass_threads, 0, stream>>>(body, of, of.numel());
  } else {
    const std::int64_t blocks = ceil_div(of.numel(), pass_threads);
    plane_pass_kernel<Body, 1>
        <<<static_cast<unsigned>(blocks), pass_threads, 0, stream>>>(body, of, of.numel());
  }
  check(cudaGetLastError(), "channel_pass_kernel");
}

}  // namespace sinter::cuda
