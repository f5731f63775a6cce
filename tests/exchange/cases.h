// The models that are exchanged with other systems, with inputs that reach what each layer can do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sinter/sinter.h>

namespace exchange {

struct Case {
  std::string name;
  std::function<std::unique_ptr<sinter::Module>()> make;
  sinter::Shape item;  ///< the shape of an input without the batch
  sinter::DType input_type = sinter::DType::float32;
  double spread = 3;  ///< inputs lie in (-spread, spread); integers count from 0 to below it
  sinter::DType model_type = sinter::DType::float32;
};

/// One for each layer and its options, each activation with its defaults and with other parameters,
/// and whole nets. Throws if a word that Sequential::parse knows is in none of them.
std::vector<Case> onnx_cases();
/// Nets that check_torch.py builds too, under the same names.
std::vector<Case> torch_cases();

/// A batch for the case, without a pattern and the same on every machine.
sinter::Tensor input_of(const Case& one, std::int64_t batch);
/// Makes what starts as zeros or ones something else, as training does.
void disturb(sinter::Module& model);

}  // namespace exchange
