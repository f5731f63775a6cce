// Layers: what comes out, and the gradients of the input and of every parameter.
#include "checks.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/tape.h>
#include <sinter/layers/attention.h>
#include <sinter/layers/batch_norm.h>
#include <sinter/layers/convolution.h>
#include <sinter/layers/flatten.h>
#include <sinter/layers/linear.h>
#include <sinter/layers/norms.h>
#include <sinter/layers/pooling.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/softmax.h>

namespace golden {
namespace {

using sinter::Tensor;

// `prefix`: what the case's module calls this one.
void check_module(sinter::Module& module, const Case& c, const Setup& setup, Report& report,
                  const std::string& prefix = "") {
  load_parameters(module, c, "param_" + prefix, setup);
  Tensor x = load(c, "x", setup);
  x.set_requires_grad();
  const Limit limit = layer_limit(setup.dtype);
  sinter::Tape tape;
  const Tensor y = module(x);
  report.compare("y", y, limit);
  // The definition of the reference gradients. (A Flatten of a leaf is that leaf under another
  // shape, nothing that a tape records and could start from.)
  tape.backward(sinter::sum(y * load(c, "g", setup)));
  report.compare("grad_x", x.grad(), limit);
  for (const sinter::NamedParameter& parameter : module.parameters()) {
    report.compare("grad_param_" + prefix + parameter.name, parameter.grad(), limit);
  }
}

}  // namespace

void check_linear(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::Linear layer(args.get<std::int64_t>("in_features"),
                       args.get<std::int64_t>("out_features"),
                       {.bias = args.get<bool>("bias", true)});
  args.require_all_read();
  check_module(layer, c, setup, report);
}

void check_layer_norm(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::LayerNorm layer(args.get<std::int64_t>("normalized_shape"),
                          {.eps = args.get<double>("eps")});
  args.require_all_read();
  check_module(layer, c, setup, report);
}

void check_rms_norm(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::RMSNorm layer(args.get<std::int64_t>("normalized_shape"),
                        {.eps = args.get<double>("eps")});
  args.require_all_read();
  check_module(layer, c, setup, report);
}

template <class Layer>
void check_batch_norm(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  Layer layer(args.get<std::int64_t>("num_features"),
              {.eps = args.get<double>("eps"), .momentum = args.get<double>("momentum")});
  layer.train(args.get<bool>("training"));
  args.require_all_read();
  layer.to(setup.dtype);
  layer.to(setup.device);
  for (sinter::NamedBuffer& buffer : layer.buffers()) {
    if (buffer.name != "num_batches_tracked") {  // of a new layer
      const Tensor before = load(c, "buffer_before_" + buffer.name, setup);
      buffer.value.copy_from(before.to(buffer.value.dtype()));
    }
  }
  check_module(layer, c, setup, report);
  for (const sinter::NamedBuffer& buffer : layer.buffers()) {
    report.compare("buffer_after_" + buffer.name, buffer.value.to(setup.dtype),
                   layer_limit(setup.dtype));
  }
}
template void check_batch_norm<sinter::BatchNorm1d>(const Case&, const Setup&, Report&);
template void check_batch_norm<sinter::BatchNorm2d>(const Case&, const Setup&, Report&);

template <class Layer>
void check_softmax(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::check(args.get<int>("dim") == -1, "only the last dimension can be gone over");
  args.require_all_read();
  Layer layer;
  check_module(layer, c, setup, report);
}
template void check_softmax<sinter::Softmax>(const Case&, const Setup&, Report&);
template void check_softmax<sinter::LogSoftmax>(const Case&, const Setup&, Report&);
template void check_softmax<sinter::Softmin>(const Case&, const Setup&, Report&);

void check_glu(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::check(args.get<int>("dim") == -1, "only the last dimension can be halved");
  const auto act = args.get<std::string>("act");
  args.require_all_read();
  auto layer = sinter::Sequential::parse("glu(act=" + act + ")");
  check_module(layer, c, setup, report);
}

void check_attention(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::MultiheadAttention layer(args.get<std::int64_t>("embed_dim"),
                                   args.get<std::int64_t>("num_heads"),
                                   {.causal = args.get<bool>("causal")});
  args.require_all_read();
  check_module(layer, c, setup, report, "a.");
}

void check_conv1d(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  const auto of = [&args](const char* name) { return args.get<std::int64_t>(name); };
  sinter::Conv1d layer(of("in_channels"), of("out_channels"), of("kernel_size"),
                       {.stride = of("stride"),
                        .padding = of("padding"),
                        .dilation = of("dilation"),
                        .groups = of("groups")});
  args.require_all_read();
  check_module(layer, c, setup, report);
}

namespace {

sinter::Size2d size(Arguments& args, const char* name) {
  const auto sizes = args.get<std::vector<std::int64_t>>(name);
  sinter::check(sizes.size() == 2, name, " is no height and width");
  return {sizes[0], sizes[1]};
}

}  // namespace

void check_conv2d(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::Conv2d layer(args.get<std::int64_t>("in_channels"),
                       args.get<std::int64_t>("out_channels"), size(args, "kernel_size"),
                       {.stride = size(args, "stride"),
                        .padding = size(args, "padding"),
                        .dilation = size(args, "dilation"),
                        .groups = args.get<std::int64_t>("groups")});
  args.require_all_read();
  check_module(layer, c, setup, report);
}

void check_avg_pool1d(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::AvgPool1d layer(
      args.get<std::int64_t>("kernel_size"),
      {.stride = args.get<std::int64_t>("stride"), .padding = args.get<std::int64_t>("padding")});
  args.require_all_read();
  check_module(layer, c, setup, report);
}

template <class Layer>
void check_pool2d(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  Layer layer(size(args, "kernel_size"),
              {.stride = size(args, "stride"), .padding = size(args, "padding")});
  args.require_all_read();
  check_module(layer, c, setup, report);
}
template void check_pool2d<sinter::AvgPool2d>(const Case&, const Setup&, Report&);
template void check_pool2d<sinter::MaxPool2d>(const Case&, const Setup&, Report&);

void check_adaptive_avg_pool2d(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::AdaptiveAvgPool2d layer(size(args, "output_size"));
  args.require_all_read();
  check_module(layer, c, setup, report);
}

void check_flatten(const Case& c, const Setup& setup, Report& report) {
  Arguments args(c);
  sinter::Flatten layer(args.get<int>("start_dim", 1));
  args.require_all_read();
  check_module(layer, c, setup, report);
}

}  // namespace golden
