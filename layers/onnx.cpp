// The file format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, whose field numbers
// these are.
#include <utility>
#include <vector>

#include <sinter/layers/onnx.h>
#include <sinter/layers/onnx_graph.h>
#include <sinter/layers/protobuf.h>
#include <sinter/layers/weights.h>
#include <sinter/runtime/build_info.h>
#include <sinter/runtime/durable_file.h>

namespace sinter {
namespace {

constexpr std::int64_t ir_version = 8;  // the oldest that knows the operator set
constexpr std::int64_t operator_set = 17;
// Readers of protocol buffers refuse longer messages.
constexpr std::uint64_t longest_file = (std::uint64_t{1} << 31) - 1;

std::int64_t type_number(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return 2;
    case DType::int32:
      return 6;
    case DType::int64:
      return 7;
    default:
      return 1;  // floating types become float32
  }
}

DType type_in_file(DType dtype) { return is_floating(dtype) ? DType::float32 : dtype; }

std::uint64_t bytes_in_file(const Tensor& value) {
  return static_cast<std::uint64_t>(value.numel()) * size_of(type_in_file(value.dtype()));
}

ProtobufMessage message_of(const OnnxNode& node) {
  ProtobufMessage out;
  for (const std::string& input : node.inputs) {
    out.text(1, input);
  }
  for (const std::string& output : node.outputs) {
    out.text(2, output);
  }
  return out.text(3, node.name).text(4, node.op).fields(node.attributes);
}

// `other`: the same value for a batch of one more; sizes in which they differ are left open.
ProtobufMessage message_of(const std::string& name, const OnnxValue& value, const Shape& other,
                           std::int64_t batch) {
  ProtobufMessage shape;
  for (int d = 0; d < value.shape.rank(); ++d) {
    ProtobufMessage size;
    if (value.shape[d] == other[d]) {
      size.integer(1, value.shape[d]);
    } else if (value.shape[d] == batch && other[d] == batch + 1) {
      size.text(2, "batch");
    }
    shape.message(1, size);
  }
  ProtobufMessage tensor, type, out;
  tensor.integer(1, type_number(value.dtype)).message(2, shape);
  type.message(1, tensor);
  return out.text(1, name).message(2, type);
}

// All of a tensor but its elements, which end the message.
ProtobufMessage head_of(const OnnxInitializer& initializer) {
  ProtobufMessage out;
  for (const std::int64_t size : initializer.value.shape().sizes()) {
    out.integer(1, size);
  }
  out.integer(2, type_number(initializer.value.dtype())).text(8, initializer.name);
  return out.begin_bytes(9, bytes_in_file(initializer.value));
}

// What the model gives for a batch of one more.
Shape with_another_batch(Module& model, const Shape& input, std::optional<DType> type) {
  Shape out;
  try {
    detail::observe_calls(model, input.with(0, input[0] + 1), type,
                          [&](const Module&, const Tensor&, const Tensor& y) { out = y.shape(); });
  } catch (const Error& error) {
    throw Error(
        text("export_onnx: the model takes an input of ", input,
             ", but not one more of a batch, and the file's batch is open: ", error.what()));
  }
  return out;
}

}  // namespace

void export_onnx(Module& model, const std::filesystem::path& path, const Shape& input,
                 const OnnxOptions& options) {
  const bool integers = !is_floating(options.input_type);
  check(input.rank() >= 1, "export_onnx: expected the shape of an input, batch included, got ",
        input);
  check(integers || options.input_type == DType::float32,
        "export_onnx: the file's input is float32 or of an integer type, got ", options.input_type);
  check(options.input != options.output && !options.input.empty() && !options.output.empty(),
        "export_onnx: input and output need names of their own, got \"", options.input, "\" and \"",
        options.output, "\"");
  for (const auto& [name, tensor] : state_dict(model)) {
    check(name != options.input && name != options.output, "export_onnx: \"", name,
          "\" is the name of a parameter or buffer of the model; give input and output others");
  }
  const std::optional<DType> type = integers ? std::optional(options.input_type) : std::nullopt;
  OnnxGraph graph(model, input, type, {options.input, options.output});
  const Shape other = with_another_batch(model, input, type);
  graph.name_output(graph.run(model, options.input), options.output);

  ProtobufMessage body;
  for (const OnnxNode& node : graph.nodes()) {
    body.message(1, message_of(node));
  }
  const Shape one_more = input.with(0, input[0] + 1);
  body.text(2, "model")
      .message(11, message_of(options.input, {input, options.input_type}, one_more, input[0]))
      .message(12, message_of(options.output, graph.output(), other, input[0]));
  std::vector<std::string> heads;  // of the initializers, each as the field that it is
  std::uint64_t length = body.bytes().size();
  for (const OnnxInitializer& initializer : graph.initializers()) {
    const ProtobufMessage head = head_of(initializer);
    const std::uint64_t elements = bytes_in_file(initializer.value);
    ProtobufMessage field;
    field.begin_bytes(5, head.bytes().size() + elements);
    heads.push_back(field.bytes() + head.bytes());
    length += heads.back().size() + elements;
  }
  ProtobufMessage set, description, file;
  set.integer(2, operator_set);
  description.text(1, "sinter").text(2, model.text());
  file.integer(1, ir_version)
      .text(2, "sinter")
      .text(3, version())
      .message(8, set)
      .message(14, description)
      .begin_bytes(7, length);
  const std::uint64_t bytes = file.bytes().size() + length;
  check(bytes <= longest_file, "export_onnx: the file would have ", bytes,
        " bytes, and ONNX ends at ", longest_file,
        "; save_weights() writes parameters of any size");

  DurableFile out(path);
  const auto write = [&out](const std::string& part) { out.write(part.data(), part.size()); };
  write(file.bytes());
  write(body.bytes());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    write(heads[i]);
    const Tensor& value = graph.initializers()[i].value;
    const Tensor host = value.to(Device::cpu()).to(type_in_file(value.dtype()));
    out.write(host.address(), host.bytes());
  }
  out.commit();
}

}  // namespace sinter
