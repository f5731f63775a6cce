#include <sinter/layers/embedding.h>
#include <sinter/layers/text_form.h>

namespace sinter {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     const EmbeddingOptions& options)
    : num_embeddings_(num_embeddings),
      embedding_dim_(embedding_dim),
      padding_idx_(options.padding_idx) {
  check(num_embeddings >= 1 && embedding_dim >= 1, "embedding(", num_embeddings, ", ",
        embedding_dim, "): num_embeddings and embedding_dim must be at least 1");
  if (padding_idx_) {
    check(*padding_idx_ >= -num_embeddings && *padding_idx_ < num_embeddings, "embedding(",
          num_embeddings, ", ", embedding_dim, "): padding_idx ", *padding_idx_, " is outside [",
          -num_embeddings, ", ", num_embeddings, ")");
    *padding_idx_ += *padding_idx_ < 0 ? num_embeddings : 0;
  }
  weight_ = Parameter({num_embeddings, embedding_dim},
                      {.deviation = 1, .zero_row = padding_idx_.value_or(-1)});
}

Tensor Embedding::forward(const Tensor& indices) {
  attach();
  return embedding(indices, weight_.value(), padding_idx_);
}

void Embedding::members(Members& members) { members.parameter("weight", weight_); }

std::string Embedding::text() const {
  TextForm form("embedding");
  form.value(std::to_string(num_embeddings_)).value(std::to_string(embedding_dim_));
  if (padding_idx_) {
    form.argument("padding_idx", *padding_idx_);
  }
  return form.str();
}

Parameter& Embedding::weight() {
  attach();
  return weight_;
}

}  // namespace sinter
