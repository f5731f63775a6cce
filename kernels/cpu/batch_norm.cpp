// Batch normalisation: statistics of channels, and the passes before and after them.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

// A tensor [N, C, ...]: `space` elements for each channel of an item.
struct Channels {
  std::int64_t items, channels, space;

  explicit Channels(const Tensor& x)
      : items(x.size(0)),
        channels(x.size(1)),
        space(items * channels == 0 ? 0 : x.numel() / (items * channels)) {}

  std::int64_t numel() const { return items * channels * space; }
  double values_per_channel() const { return static_cast<double>(items * space); }

  /// Calls f(element, its channel) for [begin, end).
  template <class F>
  void each(std::int64_t begin, std::int64_t end, F f) const {
    if (begin >= end) {
      return;
    }
    std::int64_t channel = begin / space % channels;
    for (std::int64_t i = begin, stop = (begin / space + 1) * space; i < end; stop += space) {
      for (; i < std::min(stop, end); ++i) {
        f(i, channel);
      }
      channel = channel + 1 == channels ? 0 : channel + 1;
    }
  }
};

template <std::size_t count>
using Sums = std::array<double, count>;

// For each channel, what add(element, channel, sums) adds up over its elements: in pieces that
// follow from the sizes alone, each in the order of memory, then the pieces in turn.
template <std::size_t count, class Add>
std::vector<Sums<count>> channel_sums(const Channels& of, Add add) {
  const std::int64_t space = std::max<std::int64_t>(of.space, 1);
  const std::int64_t width =
      std::clamp<std::int64_t>(parallel_grain / space, 1, std::max<std::int64_t>(of.channels, 1));
  const std::int64_t height = std::max<std::int64_t>(1, parallel_grain / (width * space));
  const std::int64_t across = (of.channels + width - 1) / width;
  const std::int64_t down = (of.items + height - 1) / height;
  std::vector<Sums<count>> partial(static_cast<std::size_t>(down * of.channels));
  parallel_pieces(across * down, [&](std::int64_t piece) {
    const std::int64_t left = piece % across * width, top = piece / across * height;
    const std::int64_t right = std::min(of.channels, left + width);
    Sums<count>* const to = partial.data() + piece / across * of.channels;
    for (std::int64_t item = top; item < std::min(of.items, top + height); ++item) {
      for (std::int64_t channel = left; channel < right; ++channel) {
        Sums<count> sums = to[channel];
        const std::int64_t begin = (item * of.channels + channel) * of.space;
        for (std::int64_t i = begin; i < begin + of.space; ++i) {
          add(i, channel, sums);
        }
        to[channel] = sums;
      }
    }
  });
  std::vector<Sums<count>> total(static_cast<std::size_t>(of.channels));
  for (std::size_t i = 0; i < partial.size(); ++i) {
    for (std::size_t k = 0; k < count; ++k) {
      total[i % total.size()][k] += partial[i][k];
    }
  }
  return total;
}

// What a channel's elements go through: n = (x - center) * rstd, z = n * weight + bias.
struct Channel {
  double center, rstd, weight, bias;
  double normal(double x) const { return (x - center) * rstd; }
};

template <class T>
std::vector<Channel> channels_of(const In& mean, const In& var, const Tensor& weight,
                                 const Tensor& bias, double eps) {
  std::vector<Channel> out(static_cast<std::size_t>(mean->numel()));
  for (std::size_t c = 0; c < out.size(); ++c) {
    out[c] = {static_cast<double>(mean->raw<T>()[c]),
              1 / std::sqrt(static_cast<double>(var->raw<T>()[c]) + eps),
              weight.defined() ? static_cast<double>(weight.raw<T>()[c]) : 1,
              bias.defined() ? static_cast<double>(bias.raw<T>()[c]) : 0};
  }
  return out;
}

// z of elements [begin, end) into `to`.
template <class T>
void put_z(const Channels& of, const std::vector<Channel>& channels, const T* x, const T* residual,
           std::int64_t begin, std::int64_t end, T* to) {
  of.each(begin, end, [&](std::int64_t i, std::int64_t c) {
    const Channel& channel = channels[static_cast<std::size_t>(c)];
    const double z = channel.normal(static_cast<double>(x[i])) * channel.weight + channel.bias;
    to[i - begin] = static_cast<T>(residual == nullptr ? z : z + static_cast<double>(residual[i]));
  });
}

// Calls body(begin, end) for runs that stay in the first-level cache.
template <class Body>
void in_runs(std::int64_t n, Body body) {
  parallel_shares(n, parallel_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += run) {
      body(at, std::min(end, at + run));
    }
  });
}

}  // namespace

void batch_norm_statistics(In x, Out mean, Out var, InOut running_mean, InOut running_var,
                           InOut num_batches_tracked, std::optional<double> momentum) {
  with_floating("batch_norm_statistics", x->dtype(), [&]<class T>(T) {
    const Channels of(*x);
    const T* in = x->raw<T>();
    const double n = of.values_per_channel();
    const auto sums = channel_sums<1>(of, [&](std::int64_t i, std::int64_t, Sums<1>& sum) {
      sum[0] += static_cast<double>(in[i]);
    });
    const auto squares = channel_sums<1>(of, [&](std::int64_t i, std::int64_t c, Sums<1>& sum) {
      const double d = static_cast<double>(in[i]) - sums[static_cast<std::size_t>(c)][0] / n;
      sum[0] += d * d;
    });
    double factor = momentum.value_or(0);
    if (num_batches_tracked->defined()) {
      const std::int64_t batches = ++*num_batches_tracked->raw<std::int64_t>();
      factor = momentum.value_or(1 / static_cast<double>(batches));
    }
    const auto move = [factor](T& running, double to) {
      const double from = static_cast<double>(running);
      running = static_cast<T>((1 - factor) * from + factor * to);
    };
    for (std::size_t c = 0; c < sums.size(); ++c) {
      mean->raw<T>()[c] = static_cast<T>(sums[c][0] / n);
      var->raw<T>()[c] = static_cast<T>(squares[c][0] / n);
      if (running_mean->defined()) {
        move(running_mean->raw<T>()[c], sums[c][0] / n);
        move(running_var->raw<T>()[c], squares[c][0] / (n - 1));
      }
    }
  });
}

void batch_norm_forward(In x, In mean, In var, In weight, In bias, In residual, Out y,
                        const ops::NormArgs& args) {
  with_floating("batch_norm_forward", x->dtype(), [&]<class T>(T) {
    const Channels of(*x);
    const auto channels = channels_of<T>(mean, var, *weight, *bias, args.eps);
    const BoundActivation<T> act(args.tail);
    in_runs(of.numel(), [&](std::int64_t begin, std::int64_t end) {
      T* const out = y->raw<T>() + begin;
      put_z(of, channels, x->raw<T>(), raw_or_null<T>(residual), begin, end, out);
      act.forward(begin, out, out, end - begin);
    });
  });
}

void batch_norm_backward_sums(In x, In mean, In var, In weight, In bias, In kept, In dy, Out dz,
                              Out sums, InOut dw, InOut db, const ops::NormArgs& args,
                              const ops::WeightGradientFlags& flags) {
  with_floating("batch_norm_backward_sums", x->dtype(), [&]<class T>(T) {
    const Channels of(*x);
    const auto channels = channels_of<T>(mean, var, *weight, *bias, args.eps);
    const T* in = x->raw<T>();
    const T* grad = dy->raw<T>();
    if (dz->defined()) {
      const BoundActivation<T> act(args.tail);
      const bool from_z = args.tail.act && math::needs_input(*args.tail.act);
      in_runs(of.numel(), [&](std::int64_t begin, std::int64_t end) {
        T* const out = dz->raw<T>() + begin;
        if (from_z) {
          std::array<T, run> z;
          put_z(of, channels, in, raw_or_null<T>(kept), begin, end, z.data());
          act.backward(begin, z.data(), grad + begin, out, end - begin);
        } else if (args.tail.act) {
          act.backward(begin, kept->raw<T>() + begin, grad + begin, out, end - begin);
        } else {  // dropout is its own backward
          act.forward(begin, grad + begin, out, end - begin);
        }
      });
      grad = dz->raw<T>();
    }
    const auto found = channel_sums<2>(of, [&](std::int64_t i, std::int64_t c, Sums<2>& sum) {
      const double g = static_cast<double>(grad[i]);
      sum[0] += g;
      sum[1] += g * channels[static_cast<std::size_t>(c)].normal(static_cast<double>(in[i]));
    });
    const auto put = [](const InOut& gradient, std::size_t c, double sum, bool add) {
      if (gradient->defined()) {
        T& to = gradient->raw<T>()[c];
        to = static_cast<T>(add ? sum + static_cast<double>(to) : sum);
      }
    };
    for (std::size_t c = 0; c < found.size(); ++c) {
      sums->raw<T>()[c] = static_cast<T>(found[c][0]);
      sums->raw<T>()[found.size() + c] = static_cast<T>(found[c][1]);
      put(db, c, found[c][0], flags.accumulate_bias);
      put(dw, c, found[c][1], flags.accumulate_weight);
    }
  });
}

void batch_norm_backward(In x, In mean, In var, In weight, In dz, In sums, Out dx, double eps) {
  with_floating("batch_norm_backward", x->dtype(), [&]<class T>(T) {
    const Channels of(*x);
    const auto channels = channels_of<T>(mean, var, *weight, {}, eps);
    std::vector<double> of_g(channels.size()), of_g_n(channels.size());
    for (std::size_t c = 0; sums->defined() && c < channels.size(); ++c) {
      of_g[c] = static_cast<double>(sums->raw<T>()[c]) / of.values_per_channel();
      of_g_n[c] =
          static_cast<double>(sums->raw<T>()[channels.size() + c]) / of.values_per_channel();
    }
    parallel_shares(of.numel(), parallel_grain, [&](std::int64_t begin, std::int64_t end) {
      of.each(begin, end, [&](std::int64_t i, std::int64_t of_channel) {
        const auto c = static_cast<std::size_t>(of_channel);
        const double n = channels[c].normal(static_cast<double>(x->raw<T>()[i]));
        const double g = static_cast<double>(dz->raw<T>()[i]);
        dx->raw<T>()[i] =
            static_cast<T>(channels[c].weight * channels[c].rstd * (g - of_g[c] - n * of_g_n[c]));
      });
    });
  });
}

}  // namespace sinter::cpu
