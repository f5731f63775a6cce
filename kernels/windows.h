// Windows that slide over an image, of convolutions and pools: their sizes, and how many fit.
#pragma once

#include <cstdint>
#include <string>

namespace sinter {

/// A size or a step along height and width: one number for both, or {h, w}.
struct Size2d {
  std::int64_t h;
  std::int64_t w;

  constexpr Size2d(std::int64_t both) : h(both), w(both) {}
  constexpr Size2d(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  bool operator==(const Size2d&) const = default;
  /// "3x2", or "3" for two equal numbers.
  std::string str() const {
    return h == w ? std::to_string(h) : std::to_string(h) + "x" + std::to_string(w);
  }
};

/// A pool's stride that is not given.
inline constexpr Size2d same_as_kernel{INT64_MIN, INT64_MIN};

namespace ops {

/// The elements under a window lie `dilation` apart; windows begin `stride` apart, the first of
/// them `padding` before the image, which counts as zeros there.
struct Conv2dArgs {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
};

struct Pool2dArgs {
  Size2d kernel = 1;
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;            ///< of a maximum's window
  bool count_include_pad = true;  ///< a mean divides by what lies in the padding too
  /// A mean over windows that share the image out among the outputs: window o of n goes from
  /// floor(o size / n) to ceil((o + 1) size / n). The sizes above are of no account.
  bool adaptive = false;
};

/// Elements that one window covers, gaps included.
constexpr std::int64_t covered(std::int64_t kernel, std::int64_t dilation) {
  return (kernel - 1) * dilation + 1;
}

/// How many windows fit into `size` elements with `padding` on both sides. With `ceil_mode` one
/// more may reach beyond the padding, if it begins before it.
constexpr std::int64_t window_count(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                                    std::int64_t padding, std::int64_t dilation, bool ceil_mode) {
  const std::int64_t room = size + 2 * padding - covered(kernel, dilation);
  const std::int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  return ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count;
}

}  // namespace ops
}  // namespace sinter
