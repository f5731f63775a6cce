// Functions over sequences: attention and embeddings.
#include <optional>
#include <vector>

#include <sinter/autograd/draw.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>

namespace sinter {

void check_heads(const char* who, std::int64_t embed_dim, std::int64_t num_heads) {
  check(embed_dim >= 1 && num_heads >= 1 && embed_dim % num_heads == 0, who,
        ": num_heads must divide embed_dim, and both be at least 1; got embed_dim ", embed_dim,
        " and num_heads ", num_heads);
}

void check_padding(const char* who, std::optional<std::int64_t> padding_idx,
                   std::int64_t num_embeddings) {
  check(!padding_idx || (*padding_idx >= 0 && *padding_idx < num_embeddings), who, ": padding_idx ",
        padding_idx.value_or(0), " is outside [0, ", num_embeddings, ")");
}

Tensor self_attention(const Tensor& qkv, std::int64_t num_heads, bool causal,
                      const DropoutOptions& dropout) {
  check_floating("self_attention", qkv);
  check(qkv.rank() == 3 && qkv.shape().last() % 3 == 0,
        "self_attention: expected queries, keys and values side by side, [batch, length, 3 * "
        "embed_dim], got ",
        qkv.shape());
  const std::int64_t embed_dim = qkv.size(2) / 3;
  check_heads("self_attention", embed_dim, num_heads);
  Recording recording("self_attention", {qkv});
  const ops::AttentionArgs args{num_heads, causal, draw_mask("self_attention", dropout)};
  Tensor y = Tensor::empty(qkv.shape().with(-1, embed_dim), qkv.dtype(), qkv.device());
  ops::attention_forward(qkv, y, args);
  if (recording) {
    recording.finish(y, [args, kept = Saved(qkv)](Backward& b) {
      const Tensor& of_forward = b.saved(kept);
      Tensor dqkv = Tensor::empty(of_forward.shape(), of_forward.dtype(), of_forward.device());
      ops::attention_backward(of_forward, b.grad(), dqkv, args);
      b.give(0, dqkv);
    });
  }
  return y;
}

Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx) {
  check_floating("embedding", weight);
  check(weight.rank() == 2, "embedding: the weight must be [num_embeddings, embedding_dim], got ",
        weight.shape());
  check(indices.defined() && !is_floating(indices.dtype()),
        "embedding: expected indices of type int64, int32 or uint8, got ",
        indices.defined() ? name_of(indices.dtype()) : "an undefined tensor");
  check(indices.rank() < Shape::max_rank, "embedding: expected indices of at most ",
        Shape::max_rank - 1, " dimensions, got ", indices.shape());
  check_padding("embedding", padding_idx, weight.size(0));
  Recording recording("embedding", {weight});
  std::vector<std::int64_t> sizes(indices.shape().sizes().begin(), indices.shape().sizes().end());
  sizes.push_back(weight.size(1));
  Tensor y = Tensor::empty(Shape(sizes), weight.dtype(), weight.device());
  ops::embedding_forward(weight, indices, y);
  if (recording) {
    recording.finish(y, [kept = Saved(indices), shape = weight.shape(), padding_idx](Backward& b) {
      b.write(0, shape, [&](Tensor& dw, bool accumulate) {
        ops::embedding_backward(b.grad(), b.saved(kept), dw,
                                {padding_idx.value_or(-1), accumulate});
      });
    });
  }
  return y;
}

}  // namespace sinter
