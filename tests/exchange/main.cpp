// exchange_cases onnx|torch|back FOLDER: writes models with inputs and outputs for check_onnx.py
// and check_torch.py, and compares with what torch wrote back.
#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "../autograd/numbers.h"
#include "cases.h"

namespace exchange {
namespace {

using namespace sinter;

constexpr std::int64_t items = 1000;

std::filesystem::path path_of(const std::filesystem::path& folder, const Case& one,
                              const char* ending) {
  return folder / (one.name + ending);
}

Tensor output_of(Module& model, const Tensor& x) {
  const EvalScope eval(model);
  return model(x);
}

void write_values(const std::filesystem::path& path, const Tensor& x, const Tensor& y) {
  write_safetensors(path, {{{"input", x}, {"output", y}}, {}});
}

void write_onnx(const std::filesystem::path& folder) {
  for (const Case& one : onnx_cases()) {
    const auto model = one.make();
    disturb(*model);
    model->to(one.model_type);
    const Tensor x = input_of(one, items);
    export_onnx(*model, path_of(folder, one, ".onnx"), input_of(one, 2).shape(),
                {.input_type = one.input_type});
    save_weights(*model, path_of(folder, one, ".weights"));
    if (one.model_type != DType::float64) {
      model->to(DType::float32);  // the same numbers, in the file's arithmetic
    }
    const Tensor of_model =
        is_floating(one.input_type) && one.model_type == DType::float64 ? x.to(one.model_type) : x;
    const Tensor y = output_of(*model, of_model);
    write_values(path_of(folder, one, ".values"), x, y);
  }
}

void write_for_torch(const std::filesystem::path& folder) {
  for (const Case& one : torch_cases()) {
    const auto model = one.make();
    disturb(*model);
    const Tensor x = input_of(one, items);
    save_weights(*model, path_of(folder, one, ".weights"));
    write_values(path_of(folder, one, ".values"), x, output_of(*model, x));
  }
}

bool takes_back(const std::filesystem::path& folder) {
  bool good = true;
  for (const Case& one : torch_cases()) {
    const auto model = one.make();
    load_weights(*model, path_of(folder, one, ".weights"));
    const TensorFile file = read_safetensors(path_of(folder, one, ".values"));
    const Tensor y = output_of(*model, file.tensors.at("input"));
    const double error = testing::largest_error(y, file.tensors.at("output"));
    std::printf("%-12s back from torch   error %.1e\n", one.name.c_str(), error);
    good = good && error <= 1e-6;
  }
  return good;
}

}  // namespace
}  // namespace exchange

int main(int argc, char** argv) {
  try {
    const std::string_view what = argc == 3 ? argv[1] : "";
    sinter::manual_seed(11);
    if (what == "onnx") {
      exchange::write_onnx(argv[2]);
    } else if (what == "torch") {
      exchange::write_for_torch(argv[2]);
    } else if (what == "back") {
      return exchange::takes_back(argv[2]) ? 0 : 1;
    } else {
      throw std::runtime_error("usage: exchange_cases onnx|torch|back FOLDER");
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange_cases: %s\n", error.what());
    return 1;
  }
}
