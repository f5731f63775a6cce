// Convolutions as matrix products: the elements under each window are a column, the kernels of a
// group are the rows that it is multiplied with. Columns are laid out for a block of windows at a
// time, so what they take is bounded. Blocks follow from sizes alone, hence the order of every sum.
#include <algorithm>
#include <vector>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

constexpr std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Windows [begin, end) of an image, counted row by row.
struct Block {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

// Channels [begin, end) of a group's input.
using Channels = Block;

struct Sizes {
  ops::Conv2dArgs args;
  std::int64_t images, in, out;  // channels of one group
  std::int64_t height, width, kernel_h, kernel_w, out_h, out_w;

  Sizes(const Shape& x, const Shape& weight, const Shape& y, const ops::Conv2dArgs& of)
      : args(of),
        images(x[0]),
        in(weight[1]),
        out(weight[0] / of.groups),
        height(x[2]),
        width(x[3]),
        kernel_h(weight[2]),
        kernel_w(weight[3]),
        out_h(y[2]),
        out_w(y[3]) {}

  std::int64_t plane() const { return height * width; }
  std::int64_t windows() const { return out_h * out_w; }
  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t depth() const { return in * taps(); }
  // Where the planes of a group begin, of x and of y.
  std::int64_t x_at(std::int64_t image, std::int64_t group) const {
    return (image * args.groups + group) * in * plane();
  }
  std::int64_t y_at(std::int64_t image, std::int64_t group) const {
    return (image * args.groups + group) * out * windows();
  }
  // Multiply-adds of a group's output with columns of so many rows.
  double products(std::int64_t rows, std::int64_t columns) const {
    return static_cast<double>(out) * static_cast<double>(rows) * static_cast<double>(columns);
  }
  // Columns of x are what lies in x already.
  bool columns_are_x() const {
    return taps() == 1 && args.stride == Size2d(1) && args.padding == Size2d(0);
  }
};

// Even blocks of windows, such that `rows` of their columns stay in a second-level cache.
class Blocks {
 public:
  Blocks(const Sizes& s, std::int64_t rows) : windows_(s.windows()) {
    const std::int64_t most = std::max<std::int64_t>(128, (std::int64_t{1} << 16) / rows);
    size_ = quotient_up(windows_, quotient_up(windows_, most));
  }
  std::int64_t count() const { return quotient_up(windows_, size_); }
  std::int64_t size() const { return size_; }
  Block operator[](std::int64_t i) const {
    return {i * size_, std::min(windows_, (i + 1) * size_)};
  }

 private:
  std::int64_t windows_;
  std::int64_t size_;
};

// Even blocks of channels, such that there are enough of them for threads to share, each with rows
// enough to be worth a product.
struct ChannelBlocks {
  std::int64_t in, count;

  explicit ChannelBlocks(const Sizes& s)
      : in(s.in), count(quotient_up(s.in, std::max<std::int64_t>(1, 64 / s.taps()))) {}
  Channels operator[](std::int64_t i) const { return {in * i / count, in * (i + 1) / count}; }
  std::int64_t largest() const { return quotient_up(in, count); }
};

// Calls body(task, room) for each task of so many multiply-adds, with room of its thread's.
template <class T, class Body>
void for_each_task(std::int64_t tasks, double multiply_adds, std::int64_t room_size, Body body) {
  constexpr double worth_a_thread = 7e5;
  const auto grain = static_cast<std::int64_t>(std::max(1.0, worth_a_thread / multiply_adds));
  parallel_shares(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    Tensor room = Tensor::empty({room_size}, dtype_of<T>);
    for (std::int64_t task = begin; task < end; ++task) {
      body(task, room.raw<T>());
    }
  });
}

// For the kernel's element (i, j): where the windows of a block find theirs in a plane of x. Calls
// use(at, from, count) for `count` windows in one row of the output, from the block's `at` on,
// which read every stride-th element from `from` on. Windows that it does not name find padding.
template <class Use>
void for_each_run(const Sizes& s, Block block, std::int64_t i, std::int64_t j, Use use) {
  const auto [stride, padding, dilation, groups] = s.args;
  const std::int64_t shift = j * dilation.w - padding.w;
  const std::int64_t first = shift >= 0 ? 0 : quotient_up(-shift, stride.w);
  const std::int64_t last = shift >= s.width ? 0 : (s.width - 1 - shift) / stride.w + 1;
  for (std::int64_t at = block.begin; at < block.end;) {
    const std::int64_t row = at / s.out_w, column = at % s.out_w;
    const std::int64_t count = std::min(s.out_w - column, block.end - at);
    const std::int64_t y = row * stride.h - padding.h + i * dilation.h;
    const std::int64_t begin = std::max(column, first), end = std::min(column + count, last);
    if (y >= 0 && y < s.height && begin < end) {
      use(at - block.begin + begin - column, y * s.width + begin * stride.w + shift, end - begin);
    }
    at += count;
  }
}

// Calls use(row, i, j, channel) for the rows of the columns of some channels.
template <class Use>
void for_each_row(const Sizes& s, Channels channels, Use use) {
  std::int64_t row = 0;
  for (std::int64_t channel = channels.begin; channel < channels.end; ++channel) {
    for (std::int64_t i = 0; i < s.kernel_h; ++i) {
      for (std::int64_t j = 0; j < s.kernel_w; ++j) {
        use(row++, i, j, channel);
      }
    }
  }
}

template <class T>
struct Columns {
  const T* at;
  std::int64_t stride;  // between rows
};

// The columns of a block and some channels of x, the planes of a group.
template <class T>
Columns<T> columns_of(const Sizes& s, const T* x, Channels channels, Block block, T* room) {
  if (s.columns_are_x()) {
    return {x + channels.begin * s.plane() + block.begin, s.plane()};
  }
  const std::int64_t step = s.args.stride.w;
  for_each_row(
      s, channels, [&](std::int64_t row, std::int64_t i, std::int64_t j, std::int64_t channel) {
        T* to = room + row * block.size();
        const T* plane = x + channel * s.plane();
        std::fill_n(to, block.size(), T(0));
        for_each_run(s, block, i, j, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
          if (step == 1) {
            std::copy_n(plane + from, count, to + at);
            return;
          }
          for (std::int64_t k = 0; k < count; ++k) {
            to[at + k] = plane[from + k * step];
          }
        });
      });
  return {room, block.size()};
}

// The other way: each element of the columns is added to where it came from.
template <class T>
void add_columns(const Sizes& s, const T* columns, Channels channels, Block block, T* dx) {
  const std::int64_t step = s.args.stride.w;
  for_each_row(
      s, channels, [&](std::int64_t row, std::int64_t i, std::int64_t j, std::int64_t channel) {
        const T* from = columns + row * block.size();
        T* plane = dx + channel * s.plane();
        for_each_run(s, block, i, j, [&](std::int64_t at, std::int64_t to, std::int64_t count) {
          for (std::int64_t k = 0; k < count; ++k) {
            plane[to + k * step] += from[at + k];
          }
        });
      });
}

}  // namespace

void conv2d_forward(In x, In weight, In bias, Out y, const ops::Conv2dArgs& args) {
  with_floating("conv2d_forward", x->dtype(), [&]<class T>(T) {
    if (y->numel() == 0) {
      return;  // sizes of no images have no bounds
    }
    const Sizes s(x->shape(), weight->shape(), y->shape(), args);
    const Blocks blocks(s, s.depth());
    const T* bias_values = bias->defined() ? bias->raw<T>() : nullptr;
    for_each_task<T>(
        s.images * args.groups * blocks.count(), s.products(s.depth(), blocks.size()),
        s.columns_are_x() ? 0 : s.depth() * blocks.size(), [&](std::int64_t task, T* room) {
          const Block block = blocks[task % blocks.count()];
          const std::int64_t group = task / blocks.count() % args.groups;
          const std::int64_t image = task / blocks.count() / args.groups;
          const Columns<T> columns =
              columns_of(s, x->raw<T>() + s.x_at(image, group), {0, s.in}, block, room);
          T* to = y->raw<T>() + s.y_at(image, group) + block.begin;
          kernels<T>().gemm(false, false, s.out, block.size(), s.depth(),
                            weight->raw<T>() + group * s.out * s.depth(), s.depth(), columns.at,
                            columns.stride, false, to, s.windows());
          for (std::int64_t channel = 0; bias_values != nullptr && channel < s.out; ++channel) {
            const T shift = bias_values[group * s.out + channel];
            T* row = to + channel * s.windows();
            std::transform(row, row + block.size(), row, [shift](T v) { return v + shift; });
          }
        });
  });
}

void conv2d_backward_input(In dy, In weight, Out dx, const ops::Conv2dArgs& args) {
  with_floating("conv2d_backward_input", dy->dtype(), [&]<class T>(T) {
    if (dx->numel() == 0) {
      return;
    }
    const Sizes s(dx->shape(), weight->shape(), dy->shape(), args);
    // Blocks of windows overlap in dx, those of channels do not.
    const ChannelBlocks channels(s);
    const std::int64_t most_rows = channels.largest() * s.taps();
    const Blocks blocks(s, most_rows);
    for_each_task<T>(
        s.images * args.groups * channels.count, s.products(most_rows, s.windows()),
        most_rows * blocks.size(), [&](std::int64_t task, T* room) {
          const Channels some = channels[task % channels.count];
          const std::int64_t group = task / channels.count % args.groups;
          const std::int64_t image = task / channels.count / args.groups;
          T* planes = dx->raw<T>() + s.x_at(image, group);
          std::fill_n(planes + some.begin * s.plane(), some.size() * s.plane(), T(0));
          const T* kernel = weight->raw<T>() + group * s.out * s.depth() + some.begin * s.taps();
          for (std::int64_t i = 0; i < blocks.count(); ++i) {
            kernels<T>().gemm(true, false, some.size() * s.taps(), blocks[i].size(), s.out, kernel,
                              s.depth(), dy->raw<T>() + s.y_at(image, group) + blocks[i].begin,
                              s.windows(), false, room, blocks[i].size());
            add_columns(s, room, some, blocks[i], planes);
          }
        });
  });
}

void conv2d_backward_weight(In x, In dy, InOut dw, const ops::Conv2dArgs& args, bool accumulate) {
  with_floating("conv2d_backward_weight", x->dtype(), [&]<class T>(T) {
    if (x->numel() == 0) {
      std::fill_n(dw->raw<T>(), accumulate ? 0 : dw->numel(), T(0));
      return;
    }
    const Sizes s(x->shape(), dw->shape(), dy->shape(), args);
    const ChannelBlocks channels(s);
    const std::int64_t most_rows = channels.largest() * s.taps();
    const Blocks blocks(s, most_rows);
    // Sums of some images each, which are then added up in turn: work for threads, and less
    // rounding than in one long sum.
    constexpr std::int64_t most_sums = 16, most_elements = std::int64_t{1} << 22;
    const std::int64_t n = dw->numel();
    const std::int64_t count =
        std::min(s.images, std::clamp<std::int64_t>(most_elements / n, 1, most_sums));
    Tensor sums = Tensor::empty({count, n}, dtype_of<T>);
    for_each_task<T>(
        count * args.groups * channels.count, s.products(most_rows, s.windows() * s.images / count),
        s.columns_are_x() ? 0 : most_rows * blocks.size(), [&](std::int64_t task, T* room) {
          const Channels some = channels[task % channels.count];
          const std::int64_t group = task / channels.count % args.groups;
          const std::int64_t sum = task / channels.count / args.groups;
          T* to = sums.raw<T>() + sum * n + group * s.out * s.depth() + some.begin * s.taps();
          const std::int64_t first = s.images * sum / count;
          for (std::int64_t image = first; image < s.images * (sum + 1) / count; ++image) {
            for (std::int64_t i = 0; i < blocks.count(); ++i) {
              const Columns<T> columns =
                  columns_of(s, x->raw<T>() + s.x_at(image, group), some, blocks[i], room);
              kernels<T>().gemm(false, true, s.out, some.size() * s.taps(), blocks[i].size(),
                                dy->raw<T>() + s.y_at(image, group) + blocks[i].begin, s.windows(),
                                columns.at, columns.stride, image > first || i > 0, to, s.depth());
            }
          }
        });
    parallel_shares(n, parallel_grain, [&](std::int64_t begin, std::int64_t end) {
      T* to = dw->raw<T>();
      if (!accumulate) {
        std::fill(to + begin, to + end, T(0));
      }
      for (std::int64_t sum = 0; sum < count; ++sum) {
        kernels<T>().add_bias(sums.raw<T>() + sum * n + begin, to + begin, end - begin);
      }
    });
  });
}

}  // namespace sinter::cpu
