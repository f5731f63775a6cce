// What convolutions and pools are in ONNX.
#include <algorithm>
#include <limits>

#include <sinter/layers/convolution.h>
#include <sinter/layers/onnx_parts.h>
#include <sinter/layers/pooling.h>

namespace sinter {
namespace {

OnnxSizes list(Size2d size) { return {size.h, size.w}; }

// Windows along each dimension. Runtimes differ in what `ceil_mode` means and in how they count
// what lies beyond the padding, so the padding at the end is made as long as the windows need it.
struct Windows {
  OnnxSizes kernel, stride, padding, dilation;
  OnnxSizes end = padding;  // the padding behind the last element

  void reach(const Shape& of_input) {
    for (std::size_t d = 0; d < kernel.size(); ++d) {
      const std::int64_t size = of_input[static_cast<int>(d) + 2];
      const std::int64_t count =
          ops::window_count(size, kernel[d], stride[d], padding[d], dilation[d], true);
      const std::int64_t last =
          (count - 1) * stride[d] + ops::covered(kernel[d], dilation[d]) - padding[d];
      end[d] = std::max<std::int64_t>(last - size, 0);
    }
  }
  OnnxSizes pads(const OnnxSizes& at_end) const {
    OnnxSizes out = padding;
    out.insert(out.end(), at_end.begin(), at_end.end());
    return out;
  }
};

// x with the padding as elements of `value`.
std::string padded(OnnxGraph& graph, const std::string& x, const Windows& windows,
                   const OnnxSizes& end, double value) {
  OnnxSizes pads{0, 0};  // of batch and channels
  pads.insert(pads.end(), windows.padding.begin(), windows.padding.end());
  pads.insert(pads.end(), {0, 0});
  pads.insert(pads.end(), end.begin(), end.end());
  return graph.node("Pad", {x, graph.sizes(pads), graph.number(value)});
}

std::string average(OnnxGraph& graph, const std::string& x, const Shape& of_input, Windows windows,
                    bool ceil_mode, bool count_include_pad) {
  const OnnxSizes& padding = windows.padding;
  if (ceil_mode) {
    windows.reach(of_input);
  }
  std::string from = x;
  OnnxSizes pads = windows.pads(windows.end);
  bool counts = count_include_pad;
  const bool beyond = !std::ranges::equal(windows.end, padding, std::less_equal<>{});
  if (beyond && counts) {
    // What lies beyond the padding counts for nobody.
    from = padded(graph, x, windows, padding, 0);
    std::ranges::fill(pads, 0);
    for (std::size_t d = 0; d < padding.size(); ++d) {
      pads[padding.size() + d] = std::max<std::int64_t>(windows.end[d] - padding[d], 0);
    }
    counts = false;
  }
  return graph.node("AveragePool", {from},
                    {{"kernel_shape", windows.kernel},
                     {"strides", windows.stride},
                     {"pads", pads},
                     {"count_include_pad", std::int64_t{counts}}});
}

// [results, size]: row i is the mean of what adaptive_avg_pool2d's window i covers.
Tensor shares(std::int64_t results, std::int64_t size) {
  Tensor out = Tensor::zeros({results, size});
  for (std::int64_t i = 0; i < results; ++i) {
    const std::int64_t begin = i * size / results, end = ((i + 1) * size + results - 1) / results;
    out.view_rows(i, i + 1)
        .reshape({size})
        .view_rows(begin, end)
        .fill(1.0 / static_cast<double>(end - begin));
  }
  return out;
}

std::string convolution(OnnxGraph& graph, const std::string& x, const Parameter& weight,
                        const Parameter& bias, const Windows& windows, std::int64_t groups) {
  return graph.node("Conv", {x, graph.parameter(weight), graph.parameter(bias)},
                    {{"kernel_shape", windows.kernel},
                     {"strides", windows.stride},
                     {"pads", windows.pads(windows.end)},
                     {"dilations", windows.dilation},
                     {"group", groups}});
}

}  // namespace

std::string Conv2d::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Conv2d>(*this);
  return convolution(
      graph, x, weight_, bias_,
      {list(kernel_size_), list(options_.stride), list(options_.padding), list(options_.dilation)},
      options_.groups);
}

std::string Conv1d::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<Conv1d>(*this);
  return convolution(graph, x, weight_, bias_,
                     {{kernel_size_}, {options_.stride}, {options_.padding}, {options_.dilation}},
                     options_.groups);
}

std::string MaxPool2d::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<MaxPool2d>(*this);
  const Size2d stride = options_.stride == same_as_kernel ? kernel_size_ : options_.stride;
  Windows windows{list(kernel_size_), list(stride), list(options_.padding),
                  list(options_.dilation)};
  if (options_.ceil_mode) {
    windows.reach(graph.input_of(*this).shape);
  }
  std::string from = x;
  OnnxSizes pads = windows.pads(windows.end);
  // With a dilation padding may be as long as the kernel, which runtimes refuse as an attribute.
  if (std::ranges::max(pads) >= std::ranges::min(windows.kernel)) {
    from = padded(graph, x, windows, windows.end, -std::numeric_limits<double>::infinity());
    std::ranges::fill(pads, 0);
  }
  return graph.node("MaxPool", {from},
                    {{"kernel_shape", windows.kernel},
                     {"strides", windows.stride},
                     {"pads", pads},
                     {"dilations", windows.dilation}});
}

std::string AvgPool2d::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<AvgPool2d>(*this);
  const Size2d stride = options_.stride == same_as_kernel ? kernel_size_ : options_.stride;
  return average(graph, x, graph.input_of(*this).shape,
                 {list(kernel_size_), list(stride), list(options_.padding), {1, 1}},
                 options_.ceil_mode, options_.count_include_pad);
}

std::string AvgPool1d::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<AvgPool1d>(*this);
  return average(
      graph, x, graph.input_of(*this).shape,
      {{kernel_size_}, {options_.stride.value_or(kernel_size_)}, {options_.padding}, {1}},
      options_.ceil_mode, options_.count_include_pad);
}

std::string AdaptiveAvgPool2d::onnx(OnnxGraph& graph, const std::string& x) {
  graph.require_exactly<AdaptiveAvgPool2d>(*this);
  const Shape& shape = graph.input_of(*this).shape;
  const std::int64_t h = shape[2], w = shape[3];
  if (h % output_size_.h == 0 && w % output_size_.w == 0) {
    const OnnxSizes kernel{h / output_size_.h, w / output_size_.w};
    return graph.node("AveragePool", {x}, {{"kernel_shape", kernel}, {"strides", kernel}});
  }
  // Windows of several sizes: rows and columns are shared out by a product each.
  const std::string rows = graph.node("MatMul", {graph.constant(shares(output_size_.h, h)), x});
  const std::string turned = graph.node("Transpose", {graph.constant(shares(output_size_.w, w))},
                                        {{"perm", OnnxSizes{1, 0}}});
  return graph.node("MatMul", {rows, turned});
}

}  // namespace sinter
