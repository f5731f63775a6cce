// Gradient checks of the functions over sequences: attention and embeddings.
#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/runtime/text.h>

namespace sinter::testing {
namespace {

Tensor weighted(const Tensor& y) { return y * tensor(y.shape(), 2.0, 77); }

}  // namespace

GradientCases sequence_cases() {
  GradientCases cases;
  const std::string attention = "self_attention(Tensor, std::int64_t, bool, DropoutOptions)";
  for (const bool causal : {false, true}) {
    for (const auto& [shape, heads] : {std::pair{Shape{2, 5, 12}, 2}, std::pair{Shape{1, 1, 3}, 1},
                                       std::pair{Shape{3, 4, 9}, 3}}) {
      cases.push_back(
          {attention,
           text(heads, " heads of ", shape, causal ? ", causal" : ""),
           [=](Inputs x) { return weighted(self_attention(x[0] * x[0], heads, causal)); },
           {tensor(shape)}});
    }
    cases.push_back({attention,
                     text("dropout", causal ? ", causal" : ""),
                     [=](Inputs x) {
                       const auto generator = std::make_shared<Generator>(3);
                       return weighted(
                           self_attention(x[0], 2, causal, {.p = 0.4, .generator = generator}));
                     },
                     {tensor({2, 6, 12})}});
  }
  const std::string table = "embedding(Tensor, Tensor, std::optional<std::int64_t>)";
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{3, 0, 3, 1, 3, 0}, {2, 3});
  cases.push_back({table,
                   "rows used several times and never",
                   [=](Inputs x) { return weighted(embedding(indices, x[0])); },
                   {tensor({5, 4})}});
  cases.push_back({table,
                   "the same weight twice",
                   [=](Inputs x) {
                     const Tensor other = Tensor::from(std::vector<std::int32_t>{4, 3}, {2});
                     return sum(weighted(embedding(indices, x[0]))) +
                            sum(weighted(embedding(other, x[0])));
                   },
                   {tensor({5, 4})}});
  cases.push_back(
      {table,
       "one index, no dimension",
       [](Inputs x) { return weighted(embedding(Tensor::full({}, 2, DType::uint8), x[0] * x[0])); },
       {tensor({3, 1})}});
  return cases;
}

}  // namespace sinter::testing
