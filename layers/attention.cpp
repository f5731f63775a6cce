#include <cmath>

#include <sinter/layers/activations.h>
#include <sinter/layers/attention.h>
#include <sinter/layers/text_form.h>

namespace sinter {

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : embed_dim_(embed_dim), num_heads_(num_heads), options_(options) {
  check_heads("multihead_attention", embed_dim, num_heads);
  check_probability("multihead_attention(drop_p)", options.drop_p);
  const auto width = static_cast<double>(embed_dim);
  const double of_in = std::sqrt(6 / (width + 3 * width)), of_out = 1 / std::sqrt(width);
  // First, since its shape is refused before 3 * embed_dim is beyond 64 bits.
  out_weight_ = Parameter({embed_dim, embed_dim}, {-of_out, of_out});
  in_weight_ = Parameter({3 * embed_dim, embed_dim}, {-of_in, of_in});
  if (options.bias) {
    in_bias_ = Parameter({3 * embed_dim}, {});
    out_bias_ = Parameter({embed_dim}, {});
  }
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  attach();
  check(x.rank() == 3 && x.size(2) == embed_dim_, text(), ": expected an input of [batch, length, ",
        embed_dim_, "], got ", x.shape());
  const Tensor qkv = linear(x, in_weight_.value(), in_bias_.value());
  const Tensor y =
      self_attention(qkv, num_heads_, options_.causal, dropout_of(*this, options_.drop_p));
  return linear(y, out_weight_.value(), out_bias_.value());
}

void MultiheadAttention::members(Members& members) {
  members.parameter("in_proj_weight", in_weight_);
  members.parameter("in_proj_bias", in_bias_);
  members.parameter("out_proj.weight", out_weight_);
  members.parameter("out_proj.bias", out_bias_);
}

std::string MultiheadAttention::text() const {
  return TextForm("multihead_attention")
      .value(std::to_string(embed_dim_))
      .value(std::to_string(num_heads_))
      .argument_unless("drop_p", options_.drop_p, 0.0)
      .argument_unless("bias", options_.bias, true)
      .argument_unless("causal", options_.causal, false)
      .str();
}

}  // namespace sinter
