// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017) of packed
// queries, keys and values. A thread takes one head of one sequence at a time, in float64; of its
// weights there is one row at a time, which backward computes again: a log-sum-exp kept of each row
// would save the smaller part of that, and lose digits of the weights where logits are large.
#include <algorithm>
#include <cmath>
#include <vector>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

using Numbers = std::vector<double>;

// to[j] += factor * from[j]
void add_scaled(std::int64_t n, double factor, const double* from, double* to) {
  for (std::int64_t j = 0; j < n; ++j) {
    to[j] += factor * from[j];
  }
}

/// The sizes of a call, and where a head's rows lie in its tensors.
struct Heads {
  const ops::AttentionArgs& args;
  std::int64_t length;
  std::int64_t embed_dim;
  std::int64_t count;  // of all sequences
  std::int64_t width;
  double scale;

  Heads(const Tensor& qkv, const ops::AttentionArgs& of_call)
      : args(of_call),
        length(qkv.size(1)),
        embed_dim(qkv.size(2) / 3),
        count(qkv.size(0) * of_call.num_heads),
        width(embed_dim / of_call.num_heads),
        scale(1 / std::sqrt(static_cast<double>(width))) {}

  /// The first element of row i of a head in a tensor whose rows have `parts` parts of embed_dim.
  std::int64_t place(std::int64_t head, std::int64_t i, int parts, int part = 0) const {
    return ((head / args.num_heads * length + i) * parts + part) * embed_dim +
           head % args.num_heads * width;
  }
  /// How many keys query i sees.
  std::int64_t seen(std::int64_t i) const { return args.causal ? i + 1 : length; }
  /// Applies the mask that lies over the weights of query i.
  void drop(std::int64_t head, std::int64_t i, Numbers& row) const {
    const BoundActivation<double> dropout({.act = {}, .dropout = args.dropout});
    dropout.forward((head * length + i) * length, row.data(), row.data(), seen(i));
  }
  Numbers room(std::int64_t columns) const {
    return Numbers(static_cast<std::size_t>(length * columns));
  }
};

/// What a thread has of a head.
template <class T>
class Head {
 public:
  explicit Head(const Heads& heads) : heads_(heads), weights_(heads.room(1)) {}

  /// Rows of part 0 (queries), 1 (keys) or 2 (values) of qkv, or of a tensor of one part.
  Numbers read(const Tensor& tensor, std::int64_t head, int parts, int part = 0) const {
    Numbers out = heads_.room(heads_.width);
    for (std::int64_t i = 0; i < heads_.length; ++i) {
      const T* const from = tensor.raw<T>() + heads_.place(head, i, parts, part);
      std::copy_n(from, heads_.width, out.data() + i * heads_.width);
    }
    return out;
  }
  void write(const Numbers& rows, Tensor& tensor, std::int64_t head, int parts,
             int part = 0) const {
    for (std::int64_t i = 0; i < heads_.length; ++i) {
      const double* const from = rows.data() + i * heads_.width;
      std::transform(from, from + heads_.width,
                     tensor.raw<T>() + heads_.place(head, i, parts, part),
                     [](double value) { return static_cast<T>(value); });
    }
  }
  /// [width, length], so that the products of one row with all others run along memory.
  Numbers transposed(const Numbers& rows) const {
    Numbers out = heads_.room(heads_.width);
    for (std::int64_t i = 0; i < heads_.length; ++i) {
      for (std::int64_t c = 0; c < heads_.width; ++c) {
        out[static_cast<std::size_t>(c * heads_.length + i)] =
            rows[static_cast<std::size_t>(i * heads_.width + c)];
      }
    }
    return out;
  }
  /// products[j] = the product of `row` and row j of what was transposed, for j < count.
  void products(const double* row, const Numbers& columns, std::int64_t count,
                Numbers& products) const {
    std::fill_n(products.begin(), count, 0.0);
    for (std::int64_t c = 0; c < heads_.width; ++c) {
      add_scaled(count, row[c], columns.data() + c * heads_.length, products.data());
    }
  }
  /// softmax(q k^T / sqrt(width)) of one query, over the keys that it sees.
  Numbers& weights(const double* query, const Numbers& keys, std::int64_t seen) {
    products(query, keys, seen, weights_);
    const auto end = weights_.begin() + seen;
    const double largest = *std::max_element(weights_.begin(), end);
    double sum = 0;
    for (auto w = weights_.begin(); w != end; ++w) {
      *w = std::exp((*w - largest) * heads_.scale);
      sum += *w;
    }
    std::for_each(weights_.begin(), end, [sum](double& w) { w /= sum; });
    return weights_;
  }

 private:
  const Heads& heads_;
  Numbers weights_;
};

/// Calls body(head, room) for all heads; they do not depend on each other.
template <class T, class Body>
void for_each_head(const Heads& heads, Body body) {
  if (heads.length == 0) {
    return;
  }
  parallel_shares(heads.count, 1, [&](std::int64_t begin, std::int64_t end) {
    Head<T> room(heads);
    for (std::int64_t head = begin; head < end; ++head) {
      body(head, room);
    }
  });
}

}  // namespace

void attention_forward(In qkv, Out y, const ops::AttentionArgs& args) {
  with_floating("attention_forward", qkv->dtype(), [&]<class T>(T) {
    const Heads heads(*qkv, args);
    for_each_head<T>(heads, [&](std::int64_t head, Head<T>& room) {
      const Numbers q = room.read(*qkv, head, 3, 0), v = room.read(*qkv, head, 3, 2);
      const Numbers keys = room.transposed(room.read(*qkv, head, 3, 1));
      Numbers out = heads.room(heads.width);
      for (std::int64_t i = 0; i < heads.length; ++i) {
        Numbers& weights = room.weights(q.data() + i * heads.width, keys, heads.seen(i));
        heads.drop(head, i, weights);
        for (std::int64_t j = 0; j < heads.seen(i); ++j) {
          // What is dropped takes no part, whatever the value is.
          if (const double weight = weights[static_cast<std::size_t>(j)]; weight != 0) {
            add_scaled(heads.width, weight, v.data() + j * heads.width,
                       out.data() + i * heads.width);
          }
        }
      }
      room.write(out, *y, head, 1);
    });
  });
}

void attention_backward(In qkv, In dy, Out dqkv, const ops::AttentionArgs& args) {
  with_floating("attention_backward", qkv->dtype(), [&]<class T>(T) {
    const Heads heads(*qkv, args);
    for_each_head<T>(heads, [&](std::int64_t head, Head<T>& room) {
      const Numbers q = room.read(*qkv, head, 3, 0), k = room.read(*qkv, head, 3, 1);
      const Numbers keys = room.transposed(k);
      const Numbers values = room.transposed(room.read(*qkv, head, 3, 2));
      const Numbers grads = room.read(*dy, head, 1);
      Numbers dq = heads.room(heads.width), dk = dq, dv = dq;
      Numbers kept = heads.room(1), dweights = heads.room(1);
      for (std::int64_t i = 0; i < heads.length; ++i) {
        const std::int64_t seen = heads.seen(i), row = i * heads.width;
        const Numbers& weights = room.weights(q.data() + row, keys, seen);
        std::copy_n(weights.begin(), seen, kept.begin());
        heads.drop(head, i, kept);
        room.products(grads.data() + row, values, seen, dweights);
        heads.drop(head, i, dweights);
        double mean = 0;  // of dweights, by the weights
        for (std::int64_t j = 0; j < seen; ++j) {
          mean += weights[static_cast<std::size_t>(j)] * dweights[static_cast<std::size_t>(j)];
        }
        for (std::int64_t j = 0; j < seen; ++j) {
          const auto at = static_cast<std::size_t>(j);
          if (kept[at] != 0) {
            add_scaled(heads.width, kept[at], grads.data() + row, dv.data() + j * heads.width);
          }
          if (weights[at] != 0) {
            const double slope = weights[at] * (dweights[at] - mean) * heads.scale;
            add_scaled(heads.width, slope, k.data() + j * heads.width, dq.data() + row);
            add_scaled(heads.width, slope, q.data() + row, dk.data() + j * heads.width);
          }
        }
      }
      room.write(dq, *dqkv, head, 3, 0);
      room.write(dk, *dqkv, head, 3, 1);
      room.write(dv, *dqkv, head, 3, 2);
    });
  });
}

}  // namespace sinter::cpu
