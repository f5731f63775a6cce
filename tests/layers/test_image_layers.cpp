// Convolutions and pools as a user writes them. Their values against PyTorch are golden_check's
// subject, against their definitions that of the kernels' tests.
#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "../cuda.h"
#include <sinter/sinter.h>

namespace sinter {
namespace {

using namespace testing;

Tensor images(const Shape& shape, DType dtype = DType::float32) {
  return tensor(shape, 2.0, 1, dtype);
}

TEST_CASE("convolutions have torch's parameters, drawn as torch draws them") {
  Sequential model{Conv2d{4, 60, {3, 5}, {.groups = 2}}, Conv1d{6, 4, 3},
                   Conv2d{60, 2, 1, {.bias = false}}};
  const Parameters parameters = model.parameters();
  std::vector<std::string> names;
  for (const NamedParameter& parameter : parameters) {
    names.push_back(parameter.name);
  }
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "2.weight"});
  CHECK(parameters[0].value().shape() == Shape{60, 2, 3, 5});
  CHECK(parameters[1].value().shape() == Shape{60});
  CHECK(parameters[2].value().shape() == Shape{4, 6, 3});
  CHECK(parameters[4].value().shape() == Shape{2, 60, 1, 1});
  // Uniform within 1 / sqrt of the elements under a kernel, 2 * 3 * 5: the largest of 1800 nearly
  // reaches it, and their mean square is a third of its square.
  double largest = 0, squares = 0;
  for (const double value : doubles(parameters[0].value())) {
    largest = std::max(largest, std::abs(value));
    squares += value * value;
  }
  CHECK(largest <= std::sqrt(1.0 / 30));
  CHECK(largest > 0.99 * std::sqrt(1.0 / 30));
  CHECK(squares / 1800 == doctest::Approx(1.0 / 90).epsilon(0.1));
  for (const double value : doubles(parameters[1].value())) {
    CHECK(std::abs(value) <= std::sqrt(1.0 / 30));
  }
}

TEST_CASE("shapes are torch's, for sizes that divide and that do not") {
  const auto shape = [](Module&& layer, const Shape& of) { return layer(images(of)).shape(); };
  CHECK(shape(Conv2d{3, 8, 3}, {2, 3, 9, 7}) == Shape{2, 8, 7, 5});
  CHECK(shape(Conv2d{3, 8, {3, 2}, {.stride = 2, .padding = {1, 0}}}, {2, 3, 9, 7}) ==
        Shape{2, 8, 5, 3});
  CHECK(shape(Conv1d{3, 8, 3, {.stride = 2, .dilation = 2}}, {2, 3, 10}) == Shape{2, 8, 3});
  CHECK(shape(MaxPool2d{2}, {2, 3, 9, 7}) == Shape{2, 3, 4, 3});
  CHECK(shape(MaxPool2d{{2, 3}, {.stride = {2, 1}}}, {2, 3, 9, 7}) == Shape{2, 3, 4, 5});
  CHECK(shape(MaxPool2d{2, {.ceil_mode = true}}, {2, 3, 9, 7}) == Shape{2, 3, 5, 4});
  CHECK(shape(AvgPool2d{3, {.stride = 2, .padding = 1}}, {2, 3, 9, 7}) == Shape{2, 3, 5, 4});
  CHECK(shape(AvgPool1d{3}, {2, 3, 10}) == Shape{2, 3, 3});
  CHECK(shape(AvgPool1d{3, {.ceil_mode = true}}, {2, 3, 10}) == Shape{2, 3, 4});
  CHECK(shape(AdaptiveAvgPool2d{{1, 12}}, {2, 3, 9, 7}) == Shape{2, 3, 1, 12});
  // PyTorch asks ceil_mode's windows only to begin before the image ends.
  CHECK(shape(MaxPool2d{2, {.ceil_mode = true}}, {1, 1, 1, 1}) == Shape{1, 1, 1, 1});
  CHECK(shape(AvgPool2d{3, {.stride = 2, .ceil_mode = true}}, {1, 1, 2, 2}) == Shape{1, 1, 1, 1});
  CHECK(shape(MaxPool2d{3, {.ceil_mode = true}}, {2, 3, 5, 1}) == Shape{2, 3, 2, 1});
  Sequential model = Sequential::parse(
      "conv2d(1, 6, 5, padding=2) -> relu -> max_pool2d(2) -> flatten -> linear(1176, 10)");
  const std::string summary = model.summary({64, 1, 28, 28});
  CHECK(contains(summary, "[64, 6, 28, 28]"));
  CHECK(contains(summary, "[64, 6, 14, 14]"));
}

TEST_CASE("a window that ceil_mode lets reach beyond the padded input") {
  CHECK(max_pool2d(Tensor::full({1, 1, 1, 1}, -3), 2, {.ceil_mode = true}).item() == -3);
  const Tensor x = Tensor::from<float>({1, 2, 3, 6}, {1, 1, 2, 2});
  CHECK(avg_pool2d(x, 3, {.stride = 2, .ceil_mode = true}).item() == 3);
  // Of the 5 places under the kernel the last lies beyond the padding and counts in neither way.
  const Tensor row = Tensor::from<float>({6, 12}, {1, 1, 2});
  CHECK(avg_pool1d(row, 5, {.stride = 2, .padding = 1, .ceil_mode = true}).item() == 4.5);
  CHECK(
      avg_pool1d(row, 5, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})
          .item() == 9);
  check_error([&] { avg_pool1d(row, 5, {.stride = 1, .padding = 1, .ceil_mode = true}); },
              {"avg_pool1d: a kernel of 5", "more than the padded input of 4"});
  check_error([&] { avg_pool2d(x, 3, {.stride = 2}); },
              {"avg_pool2d: a kernel of 3", "padded input of 2"});
  check_error([&] { avg_pool2d(x, {4, 2}, {.stride = 2, .ceil_mode = true}); }, {"avg_pool2d"});
}

TEST_CASE("a sequence is an image of height 1") {
  manual_seed(2);
  Conv1d layer{4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2}};
  const Tensor x = images({3, 4, 11});
  const Parameters parameters = layer.parameters();
  const Tensor weight = parameters[0].value().detach().reshape({6, 2, 1, 3});
  const Tensor y =
      conv2d(x.reshape({3, 4, 1, 11}), weight, parameters[1].value(), {1, 2}, {0, 1}, {1, 2}, 2);
  CHECK(same(layer(x), y.reshape({3, 6, 5})));
  CHECK(same(AvgPool1d{3, {.stride = 2}}(x),
             avg_pool2d(x.reshape({3, 4, 1, 11}), {1, 3}, {.stride = 2}).reshape({3, 4, 5})));
}

TEST_CASE("a batch of none, and of one") {
  Sequential model{Conv2d{1, 2, 3}, MaxPool2d{2}, AvgPool2d{2}, AdaptiveAvgPool2d{1}, Flatten{}};
  const Tensor x = images({5, 1, 8, 8});
  {
    Tape tape;
    const Tensor y = model(Tensor::zeros({0, 1, 8, 8}));
    CHECK(y.shape() == Shape{0, 2});
    tape.backward(sum(y));
    for (const NamedParameter& parameter : model.parameters()) {
      CHECK(doubles(parameter.grad()) ==
            std::vector<double>(static_cast<std::size_t>(parameter.value().numel()), 0.0));
    }
  }
  const Tensor all = model(x);
  CHECK(same(model(x.view_rows(3, 4)), all.view_rows(3, 4)));
}

TEST_CASE("16-bit images are computed in float32 and rounded once") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = images({2, 4, 7, 6}, dtype), w = tensor({6, 2, 3, 2}, 1.0, 3, dtype);
    const Tensor wide = x.to(DType::float32);
    CHECK(same(conv2d(x, w, {}, 2, 1, 1, 2),
               conv2d(wide, w.to(DType::float32), {}, 2, 1, 1, 2).to(dtype)));
    CHECK(same(max_pool2d(x, 2), max_pool2d(wide, 2).to(dtype)));
    CHECK(same(avg_pool2d(x, 3), avg_pool2d(wide, 3).to(dtype)));
  }
}

TEST_CASE("layers that cannot be are one sentence") {
  check_error(
      [] {
        Conv2d{4, 6, 3, {.groups = 4}};
      },
      {"conv2d: groups must divide in_channels and out_channels", "4 groups of 4 and 6"});
  check_error([] { Conv2d{0, 6, 3}; }, {"conv2d: in_channels must be from 1", "got 0"});
  check_error([] { Conv1d{4, -6, 3}; }, {"conv1d: out_channels must be from 1", "got -6"});
  check_error([] { Conv2d{4, 6, {3, 0}}; }, {"conv2d: kernel_size must be from 1", "got 3x0"});
  check_error([] { Conv1d{4, 6, 0}; }, {"conv1d: kernel_size must be from 1", "got 0"});
  check_error(
      [] {
        Conv2d{4, 6, 3, {.stride = {1, 0}}};
      },
      {"conv2d: stride must be from 1", "got 1x0"});
  check_error([] { Conv1d{4, 6, 3, {.stride = -2}}; }, {"conv1d: stride", "got -2"});
  check_error([] { Conv2d{4, 6, 3, {.padding = -1}}; }, {"conv2d: padding must be from 0"});
  check_error([] { Conv2d{4, 6, 3, {.dilation = 0}}; }, {"conv2d: dilation must be from 1"});
  check_error([] { Conv2d{4, 6, 3, {.groups = 0}}; }, {"conv2d: groups must be from 1"});
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t size : {huge, huge / 2, std::int64_t{1} << 40}) {
    check_error([&] { Conv2d{1, 1, 3, {.padding = size}}; }, {"conv2d: padding", "to 1073741824"});
    check_error([&] { Conv2d{1, 1, 3, {.dilation = size}}; }, {"conv2d: dilation"});
    check_error([&] { MaxPool2d{size}; }, {"max_pool2d: kernel_size"});
    check_error([&] { AdaptiveAvgPool2d{{1, size}}; }, {"adaptive_avg_pool2d: output_size"});
  }
  check_error([] { MaxPool2d{0}; }, {"max_pool2d: kernel_size must be from 1", "got 0"});
  check_error([] { MaxPool2d{2, {.stride = 0}}; }, {"max_pool2d: stride must be from 1"});
  check_error([] { MaxPool2d{2, {.dilation = 0}}; }, {"max_pool2d: dilation must be from 1"});
  check_error([] { AvgPool1d{2, {.stride = 0}}; }, {"avg_pool1d: stride must be from 1"});
  check_error([] { AvgPool2d{2, {.padding = -1}}; }, {"avg_pool2d: padding must be from 0"});
  check_error(
      [] {
        AvgPool2d{{4, 3}, {.padding = 2}};
      },
      {"avg_pool2d: padding must be at most 2x1", "half", "got 2"});
  check_error([] { AvgPool1d{3, {.padding = 2}}; }, {"avg_pool1d: padding must be at most 1"});
  check_error([] { MaxPool2d{2, {.padding = 2}}; }, {"max_pool2d: padding must be at most 1"});
  CHECK_NOTHROW(MaxPool2d{2, {.padding = 2, .dilation = 3}});
  check_error([] { AdaptiveAvgPool2d{0}; }, {"adaptive_avg_pool2d: output_size must be from 1"});
}

TEST_CASE("inputs that do not fit are one sentence with layer, wanted and given") {
  const auto says = [](Sequential model, const Tensor& x,
                       std::initializer_list<std::string_view> parts) {
    check_error([&] { model(x); }, {"layer 0 of the model: "});
    check_error([&] { model(x); }, parts);
  };
  says(Sequential{Conv2d{3, 4, 3}}, images({2, 4, 5, 5}),
       {"conv2d: expected an input of [N, 3, H, W], got [2, 4, 5, 5]"});
  says(Sequential{Conv2d{3, 4, 3}}, images({3, 5, 5}),
       {"conv2d: expected an input of [N, 3, H, W], got [3, 5, 5]; one alone is a batch of 1"});
  says(Sequential{Conv1d{3, 4, 3}}, images({2, 3, 5, 5}), {"conv1d", "[N, 3, L]"});
  says(Sequential{MaxPool2d{2}}, images({2, 4}), {"max_pool2d", "[N, C, H, W]", "[2, 4]"});
  says(Sequential{AvgPool1d{2}}, images({2, 4}), {"avg_pool1d", "[N, C, L]", "[2, 4]"});
  says(Sequential{AdaptiveAvgPool2d{2}}, images({2, 4, 0, 3}),
       {"adaptive_avg_pool2d: an input of [2, 4, 0, 3] has nothing in it"});
  says(Sequential{MaxPool2d{1}}, Tensor::zeros({0, 1, std::int64_t{1} << 62, 1}),
       {"max_pool2d: an input of", "is too large"});
  says(Sequential{Conv2d{3, 4, {5, 3}, {.padding = {1, 0}, .dilation = {2, 1}}}},
       images({2, 3, 6, 6}),
       {"conv2d: a kernel of 5x3 with dilation 2x1 covers 9x3, more than the padded input of 8x6"});
  says(Sequential{Conv1d{3, 4, 3}}, images({2, 3, 2}),
       {"conv1d: a kernel of 3 with dilation 1 covers 3, more than the padded input of 2"});
  says(Sequential{MaxPool2d{3}}, images({2, 3, 5, 2}), {"max_pool2d: a kernel of 3", "5x2"});
  says(Sequential{Conv2d{3, 4, 3}}, images({2, 3, 5, 5}, DType::float64),
       {"conv2d: the input is float64, the weight float32"});
  says(Sequential{Conv2d{3, 4, 3}}, Tensor::zeros({2, 3, 5, 5}, DType::uint8), {"conv2d", "uint8"});
  says(Sequential{MaxPool2d{2}}, Tensor::zeros({2, 3, 5, 5}, DType::int64), {"max_pool2d"});
  {
    const QuietFallback quiet;
    says(Sequential{Conv2d{3, 4, 3}}, images({2, 3, 5, 5}).to(Device::fake()),
         {"conv2d", "cpu", "fake", "to(device)"});
  }
  const Tensor x = images({2, 4, 5, 5});
  check_error([&] { conv2d(x, images({6, 4, 3})); }, {"conv2d: the weight must be", "[6, 4, 3]"});
  check_error([&] { conv2d(x, {}); }, {"conv2d: the weight must be"});
  check_error(
      [&] {
        conv2d(x, images({6, 4, 3, 3}), images({5}));
      },
      {"conv2d: the bias must be [6]", "[5]"});
  check_error([&] { conv2d(x, images({6, 0, 3, 3})); }, {"conv2d: in_channels / groups"});
  check_error([&] { conv2d(x, images({6, 2, 3, 3}), {}, 1, 0, 1, 4); }, {"groups must divide"});
}

// Images of a line across, down or along the diagonal, at a place and with noise of their own.
TensorDataset lines(std::int64_t n) {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t label = i % 3, place = i / 3 % 9;
    for (std::int64_t h = 0; h < 9; ++h) {
      for (std::int64_t w = 0; w < 9; ++w) {
        const std::int64_t at = label == 0 ? h : label == 1 ? w : (h + w) % 9;
        const double noise = std::sin(12.9898 * static_cast<double>((i * 9 + h) * 9 + w));
        pixels.push_back(static_cast<float>((at == place ? 1.0 : 0.0) + 0.3 * noise));
      }
    }
    labels.push_back(label);
  }
  return {Tensor::from(pixels, {n, 1, 9, 9}), Tensor::from(labels, {n})};
}

std::vector<double> train(Device device) {
  manual_seed(3);
  Sequential model = Sequential::parse(
      "conv2d(1, 6, 3, padding=1) -> relu -> max_pool2d(2, ceil_mode=true) -> conv2d(6, 8, 3) -> "
      "relu(drop_p=0.1) -> avg_pool2d(2, stride=1) -> flatten -> linear(32, 3)");
  model.to(device);
  AdamW optimizer{model.parameters(), {.lr = 0.01}};
  Trainer trainer{model, CrossEntropyLoss{}, optimizer};
  trainer.fit(lines(270), {.epochs = 12, .batch_size = 32, .progress = false});
  CHECK(*trainer.evaluate(lines(270)).accuracy > 0.97);
  std::vector<double> weights;
  for (const NamedParameter& parameter : model.parameters()) {
    std::ranges::copy(doubles(parameter.value()), std::back_inserter(weights));
  }
  return weights;
}

TEST_CASE("a convolution net learns, and the same on a device without kernels") {
  const QuietFallback quiet;
  const std::vector<double> on_cpu = train(Device::cpu());
  const std::int64_t before = fallback_count("conv2d_backward_weight");
  CHECK(train(Device::fake()) == on_cpu);
  CHECK(fallback_count("conv2d_backward_weight") >= before + 2 * 9 * 12);
}

TEST_CASE("CUDA: a convolution net learns through the fallback, the rest of it on the GPU") {
  if (!has_gpu()) {
    return;
  }
  const QuietFallback quiet;
  const auto of_images = [] {
    std::int64_t count = 0;
    for (const char* op :
         {"conv2d_forward", "conv2d_backward_input", "conv2d_backward_weight", "avg_pool2d_forward",
          "avg_pool2d_backward", "max_pool2d_forward", "max_pool2d_backward"}) {
      count += fallback_count(op);
    }
    return count;
  };
  const std::int64_t all = fallback_count(), before = of_images();
  train(Device::cuda());
  CHECK(of_images() - before >= 5 * 9 * 12);
  CHECK(of_images() - before == fallback_count() - all);
}

}  // namespace
}  // namespace sinter
