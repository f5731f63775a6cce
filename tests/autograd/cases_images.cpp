// Gradient checks of convolutions and pools.
#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/runtime/text.h>

namespace sinter::testing {
namespace {

Tensor weighted(const Tensor& y) { return y * tensor(y.shape(), 2.0, 77); }

void add_convolutions(GradientCases& cases) {
  const std::string conv2 = "conv2d(Tensor, Tensor, Tensor, Size2d, Size2d, Size2d, std::int64_t)";
  struct Call {
    const char* name;
    Shape x, weight;
    Size2d stride, padding, dilation;
    std::int64_t groups;
  };
  for (const Call& call : {
           Call{"plain", {2, 3, 5, 4}, {4, 3, 3, 2}, 1, 0, 1, 1},
           Call{"stride", {2, 2, 7, 6}, {3, 2, 2, 3}, {2, 3}, 0, 1, 1},
           Call{"padding beyond the kernel", {1, 2, 3, 4}, {2, 2, 2, 3}, 1, {3, 1}, 1, 1},
           Call{"dilation", {2, 2, 7, 5}, {3, 2, 3, 2}, {1, 2}, {1, 2}, {2, 3}, 1},
           Call{"groups", {2, 4, 4, 5}, {6, 2, 2, 3}, {2, 1}, {0, 1}, 1, 2},
           Call{"a kernel for each channel", {3, 3, 5, 5}, {3, 1, 3, 3}, 1, 1, 1, 3},
           Call{"one element under the kernel", {2, 3, 3, 5}, {4, 3, 1, 1}, 1, 0, 1, 1},
           Call{"one element, some left out", {2, 3, 3, 5}, {2, 3, 1, 1}, 2, 0, 1, 1},
           Call{"one window", {2, 2, 3, 2}, {2, 2, 3, 2}, 1, 0, 1, 1},
       }) {
    const auto run = [call](const Tensor& x, const Tensor& w, const Tensor& b) {
      return weighted(conv2d(x, w, b, call.stride, call.padding, call.dilation, call.groups));
    };
    cases.push_back(
        {conv2,
         call.name,
         [=](Inputs x) { return run(x[0] * x[0], x[1], x[2]); },
         {tensor(call.x), tensor(call.weight, 2.0, 5), tensor({call.weight[0]}, 2.0, 6)}});
  }
  cases.push_back({conv2,
                   "no bias, weight twice",
                   [](Inputs x) { return weighted(conv2d(conv2d(x[0], x[1]), x[1])); },
                   {tensor({2, 2, 5, 4}), tensor({2, 2, 2, 2}, 2.0, 5)}});
  cases.push_back({conv2,
                   "weight alone",
                   [](Inputs x) {
                     return weighted(conv2d(tensor({2, 2, 5, 4}), x[0]));
                   },
                   {tensor({3, 2, 2, 2}, 2.0, 5)}});
  cases.push_back(
      {"conv1d(Tensor, Tensor, Tensor, std::int64_t, std::int64_t, std::int64_t, std::int64_t)",
       "all options",
       [](Inputs x) { return weighted(conv1d(x[0] * x[0], x[1], x[2], 2, 3, 2, 2)); },
       {tensor({2, 4, 9}), tensor({6, 2, 3}, 2.0, 5), tensor({6}, 2.0, 6)}});
}

void add_pools(GradientCases& cases) {
  const std::string avg2 = "avg_pool2d(Tensor, Size2d, AvgPool2dOptions)";
  const std::string avg1 = "avg_pool1d(Tensor, std::int64_t, AvgPool1dOptions)";
  const std::string max2 = "max_pool2d(Tensor, Size2d, MaxPool2dOptions)";
  const Tensor x = tensor({2, 3, 7, 6});
  cases.push_back({avg2, "plain", [](Inputs of) { return weighted(avg_pool2d(of[0], 2)); }, {x}});
  for (const bool with_padding : {false, true}) {
    cases.push_back({avg2,
                     text("overlaps, padding counts: ", with_padding),
                     [=](Inputs of) {
                       return weighted(avg_pool2d(of[0] * of[0], {3, 4},
                                                  {.stride = {2, 1},
                                                   .padding = {1, 2},
                                                   .ceil_mode = true,
                                                   .count_include_pad = with_padding}));
                     },
                     {x}});
  }
  cases.push_back(
      {avg1,
       "all options",
       [](Inputs of) {
         return weighted(avg_pool1d(
             of[0] * of[0], 3,
             {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}));
       },
       {tensor({2, 3, 8})}});
  for (const Size2d out : {Size2d(1), Size2d(3, 4), Size2d(7, 6), Size2d(9, 8)}) {
    cases.push_back({"adaptive_avg_pool2d(Tensor, Size2d)",
                     out.str(),
                     [=](Inputs of) { return weighted(adaptive_avg_pool2d(of[0] * of[0], out)); },
                     {x}});
  }
  cases.push_back({max2, "plain", [](Inputs of) { return weighted(max_pool2d(of[0], 2)); }, {x}});
  cases.push_back(
      {max2,
       "all options",
       [](Inputs of) {
         return weighted(max_pool2d(
             of[0] * of[0], {3, 2},
             {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 3}, .ceil_mode = true}));
       },
       {x}});
}

}  // namespace

GradientCases image_cases() {
  GradientCases cases;
  add_convolutions(cases);
  add_pools(cases);
  return cases;
}

}  // namespace sinter::testing
