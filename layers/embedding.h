// A table of rows that are looked up by number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinter/autograd/functions.h>
#include <sinter/layers/module.h>

namespace sinter {

struct EmbeddingOptions {
  /// This row starts as zeros and gets no gradient; a negative one counts from the end.
  std::optional<std::int64_t> padding_idx = std::nullopt;
};

/// sinter::embedding: indices (int64, int32 or uint8) [...] to [..., embedding_dim]; weight
/// [num_embeddings, embedding_dim] starts normal with mean 0 and deviation 1, as
/// torch.nn.Embedding's does.
class Embedding : public Module {
 public:
  /// Throws Error for sizes below 1 and a padding_idx outside [-num_embeddings, num_embeddings).
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
            const EmbeddingOptions& options = {});

  Tensor forward(const Tensor& indices) override;
  void members(Members& members) override;
  std::string text() const override;
  std::string onnx(OnnxGraph& graph, const std::string& x) override;

  /// Drawn on first use.
  Parameter& weight();

 private:
  std::int64_t num_embeddings_;
  std::int64_t embedding_dim_;
  std::optional<std::int64_t> padding_idx_;
  Parameter weight_;
};

}  // namespace sinter
