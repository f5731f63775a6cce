// The mean and the maximum under windows that slide over an image.
#include <algorithm>
#include <cmath>
#include <limits>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

// A window along one axis: the elements [begin, end) of it that are in the image, and its size with
// what lies in the padding.
struct Window {
  std::int64_t begin, end, size;
};

// Calls body(plane, row) for each row of the images `of`.
template <class Body>
void for_each_row(const Shape& of, std::int64_t work, Body body) {
  const std::int64_t rows = of[2];
  const std::int64_t grain = std::max<std::int64_t>(1, parallel_grain / work / of[3]);
  parallel_shares(of[0] * of[1] * rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      body(at / rows, at % rows);
    }
  });
}

// Calls body(plane) for each plane of x, which windows of one plane may write to in turn.
template <class Body>
void for_each_plane(const Shape& x, Body body) {
  const std::int64_t grain = std::max<std::int64_t>(1, parallel_grain / x[2] / x[3]);
  parallel_shares(x[0] * x[1], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      body(plane);
    }
  });
}

// The windows of a mean over images `x` whose result is `y`.
class Means {
 public:
  Means(const Shape& x, const Shape& y, const ops::Pool2dArgs& args) : x_(x), y_(y), args_(args) {}

  Window row(std::int64_t i) const {
    return args_.adaptive ? share(i, x_[2], y_[2])
                          : window(i, x_[2], args_.kernel.h, args_.stride.h, args_.padding.h);
  }
  Window column(std::int64_t j) const {
    return args_.adaptive ? share(j, x_[3], y_[3])
                          : window(j, x_[3], args_.kernel.w, args_.stride.w, args_.padding.w);
  }
  double elements(const Window& row, const Window& column) const {
    return static_cast<double>(args_.count_include_pad
                                   ? row.size * column.size
                                   : (row.end - row.begin) * (column.end - column.begin));
  }

 private:
  static Window window(std::int64_t i, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                       std::int64_t padding) {
    const std::int64_t begin = i * stride - padding;
    const std::int64_t end = std::min(begin + kernel, size + padding);
    return {std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
  }
  // floor(i size / count) to ceil((i + 1) size / count), whose products might not fit.
  static Window share(std::int64_t i, std::int64_t size, std::int64_t count) {
    const std::int64_t whole = size / count, rest = size % count;
    const std::int64_t begin = i * whole + i * rest / count;
    const std::int64_t end = (i + 1) * whole + ((i + 1) * rest + count - 1) / count;
    return {begin, end, end - begin};
  }

  Shape x_, y_;
  ops::Pool2dArgs args_;
};

// The positions first, first + dilation and so on below `end` of a window along one axis that are
// in the image.
struct Steps {
  std::int64_t first, end;

  Steps(std::int64_t i, std::int64_t size, std::int64_t kernel, std::int64_t stride,
        std::int64_t padding, std::int64_t dilation)
      : first(i * stride - padding), end(std::min(size, first + ops::covered(kernel, dilation))) {
    first += first < 0 ? (dilation - 1 - first) / dilation * dilation : 0;
  }
};

// Where in a plane of x the largest element of window (i, j) is, the first of equals, or the last
// NaN, as in PyTorch; -1 for a window that holds none.
template <class T>
std::int64_t place_of_largest(const T* plane, const Shape& x, std::int64_t i, std::int64_t j,
                              const ops::Pool2dArgs& args) {
  const auto& [kernel, stride, padding, dilation, unused, adaptive] = args;
  const Steps rows(i, x[2], kernel.h, stride.h, padding.h, dilation.h);
  const std::int64_t width = x[3];
  const Steps columns(j, width, kernel.w, stride.w, padding.w, dilation.w);
  std::int64_t place = -1;
  T largest{};
  for (std::int64_t row = rows.first; row < rows.end; row += dilation.h) {
    for (std::int64_t column = columns.first; column < columns.end; column += dilation.w) {
      const T value = plane[row * width + column];
      if (place < 0 || value > largest || std::isnan(value)) {
        place = row * width + column;
        largest = value;
      }
    }
  }
  return place;
}

}  // namespace

void avg_pool2d_forward(In x, Out y, const ops::Pool2dArgs& args) {
  with_floating("avg_pool2d_forward", x->dtype(), [&]<class T>(T) {
    if (y->numel() == 0) {
      return;  // sizes of no images have no bounds
    }
    const std::int64_t width = x->size(3), out_w = y->size(3);
    const Means means(x->shape(), y->shape(), args);
    const Window first_row = means.row(0), first_column = means.column(0);
    for_each_row(y->shape(), first_row.size * first_column.size,
                 [&](std::int64_t plane, std::int64_t i) {
                   const T* in = x->raw<T>() + plane * x->size(2) * width;
                   T* out = y->raw<T>() + (plane * y->size(2) + i) * out_w;
                   const Window rows = means.row(i);
                   for (std::int64_t j = 0; j < out_w; ++j) {
                     const Window columns = means.column(j);
                     double sum = 0;
                     for (std::int64_t row = rows.begin; row < rows.end; ++row) {
                       for (std::int64_t at = columns.begin; at < columns.end; ++at) {
                         sum += static_cast<double>(in[row * width + at]);
                       }
                     }
                     out[j] = static_cast<T>(sum / means.elements(rows, columns));
                   }
                 });
  });
}

void avg_pool2d_backward(In dy, Out dx, const ops::Pool2dArgs& args) {
  with_floating("avg_pool2d_backward", dy->dtype(), [&]<class T>(T) {
    const std::int64_t width = dx->size(3), size = dx->size(2) * width;
    const std::int64_t out_h = dy->size(2), out_w = dy->size(3);
    const Means means(dx->shape(), dy->shape(), args);
    for_each_plane(dx->shape(), [&](std::int64_t plane) {
      T* out = dx->raw<T>() + plane * size;
      std::fill_n(out, size, T(0));
      for (std::int64_t i = 0; i < out_h; ++i) {
        const T* grads = dy->raw<T>() + (plane * out_h + i) * out_w;
        const Window rows = means.row(i);
        for (std::int64_t j = 0; j < out_w; ++j) {
          const Window columns = means.column(j);
          const T share =
              static_cast<T>(static_cast<double>(grads[j]) / means.elements(rows, columns));
          for (std::int64_t row = rows.begin; row < rows.end; ++row) {
            for (std::int64_t at = columns.begin; at < columns.end; ++at) {
              out[row * width + at] += share;
            }
          }
        }
      }
    });
  });
}

void max_pool2d_forward(In x, Out y, const ops::Pool2dArgs& args) {
  with_floating("max_pool2d_forward", x->dtype(), [&]<class T>(T) {
    const Shape shape = x->shape();
    const std::int64_t out_w = y->size(3);
    for_each_row(y->shape(), args.kernel.h * args.kernel.w,
                 [&](std::int64_t plane, std::int64_t i) {
                   const T* in = x->raw<T>() + plane * shape[2] * shape[3];
                   T* out = y->raw<T>() + (plane * y->size(2) + i) * out_w;
                   for (std::int64_t j = 0; j < out_w; ++j) {
                     const std::int64_t place = place_of_largest(in, shape, i, j, args);
                     out[j] = place < 0 ? -std::numeric_limits<T>::infinity() : in[place];
                   }
                 });
  });
}

void max_pool2d_backward(In x, In dy, Out dx, const ops::Pool2dArgs& args) {
  with_floating("max_pool2d_backward", x->dtype(), [&]<class T>(T) {
    const Shape shape = x->shape();
    const std::int64_t size = shape[2] * shape[3], out_h = dy->size(2), out_w = dy->size(3);
    for_each_plane(shape, [&](std::int64_t plane) {
      const T* in = x->raw<T>() + plane * size;
      T* out = dx->raw<T>() + plane * size;
      std::fill_n(out, size, T(0));
      for (std::int64_t i = 0; i < out_h; ++i) {
        for (std::int64_t j = 0; j < out_w; ++j) {
          const std::int64_t place = place_of_largest(in, shape, i, j, args);
          if (place >= 0) {
            out[place] += dy->raw<T>()[(plane * out_h + i) * out_w + j];
          }
        }
      }
    });
  });
}

}  // namespace sinter::cpu
