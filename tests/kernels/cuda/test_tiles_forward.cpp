// A Linear's forward pass and its input's gradient in one kernel each.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tiles.h"

namespace sinter::on_device {
namespace {

void check_mask(const std::vector<float>& got, const ops::DropoutArgs& dropout) {
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    wrong += !dropout.mask.keep(dropout.first + i) && got[i] != 0 ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("CUDA tiles: a linear's forward pass, in TF32") {
  if (!has_gpu()) {
    return;
  }
  const AllCores all_cores;
  const Fallback error(FallbackPolicy::error);
  const std::vector<math::AnyActivation> settings = all_settings();
  int variant = 0;
  for (const LinearSizes& s : linear_sizes(1, 40)) {
    const int shift = variant % 3 == 2 ? variant % 5 : 0;
    const bool with_bias = variant % 4 != 1, with_z = variant % 4 != 3;
    const Operand x({s.rows, s.in}, 1, shift), w({s.out, s.in}, 2, variant % 7 == 6 ? 1 : 0);
    const Operand bias({s.out}, 3, shift);
    ops::ActivationArgs args{.act = {}, .dropout = dropout_case(variant)};
    if (variant % 8 != 7) {
      args.act = settings[static_cast<std::size_t>(variant) % settings.size()];
    }
    INFO(s.rows, " x ", s.in, " -> ", s.out, ", variant ", variant);
    Placed<float> y({s.rows, s.out}, shift), z({s.rows, s.out}, shift);
    Tensor none;
    cuda::tile::linear_forward(x.tensor(), w.tensor(), with_bias ? bias.tensor() : none,
                               with_z ? z.tensor : none, y.tensor, args);
    CHECK(y.damage() == "");
    CHECK(z.damage() == "");
    if (!with_z) {
      cuda::tile::linear_forward(x.tensor(), w.tensor(), with_bias ? bias.tensor() : none, none,
                                 z.tensor, {});
    }
    Product want = product_of(s.rows, s.out, s.in, at(x.value, s.in), transposed(w.value, s.in));
    for (std::size_t i = 0; with_bias && i < want.value.size(); ++i) {
      const double b = bias.value[i % bias.value.size()];
      want.value[i] += b;
      want.size[i] += std::abs(b);
    }
    CHECK(worst_error(z.values(), want, s.in) < 1);
    // The pass after the product is the element-wise kernels', bit for bit.
    Tensor passed = poisoned<float>({s.rows, s.out});
    ops::activation_forward(z.tensor, passed, args);
    CHECK(unlike(y.values(), download<float>(passed)) == "");
    check_mask(y.values(), args.dropout);
    ++variant;
  }
}

TEST_CASE("CUDA tiles: the gradient of a linear's input, and of the pass before it") {
  if (!has_gpu()) {
    return;
  }
  const AllCores all_cores;
  const Fallback error(FallbackPolicy::error);
  const std::vector<math::AnyActivation> settings = all_settings();
  int variant = 0;
  for (const LinearSizes& s : linear_sizes(2, 40)) {
    const int shift = variant % 3 == 2 ? variant % 5 : 0;
    const Operand dy({s.rows, s.out}, 1, shift), w({s.out, s.in}, 2, variant % 7 == 6 ? 1 : 0);
    ops::ActivationArgs args{.act = {}, .dropout = dropout_case(variant)};
    if (variant % 8 != 7) {
      args.act = settings[static_cast<std::size_t>(variant) % settings.size()];
    }
    INFO(s.rows, " x ", s.in, " -> ", s.out, ", variant ", variant);
    Placed<float> plain({s.rows, s.in}, shift), dx({s.rows, s.in}, shift);
    const Tensor none;
    cuda::tile::linear_backward_input(dy.tensor(), w.tensor(), none, plain.tensor, {});
    CHECK(plain.damage() == "");
    const Product want = product_of(s.rows, s.in, s.out, at(dy.value, s.out), at(w.value, s.in));
    CHECK(worst_error(plain.values(), want, s.out) < 1);

    Tensor x =
        Tensor::from(random_values<float>(s.rows * s.in, 3, -3, 3), {s.rows, s.in}, Device::cuda());
    const Tensor y = forward<float>(x, args);
    const bool from_input = args.act && needs_input(*args.act);
    const Placed<float> kept(from_input ? x : y, shift);
    cuda::tile::linear_backward_input(dy.tensor(), w.tensor(), kept.tensor, dx.tensor, args);
    CHECK(dx.damage() == "");
    Tensor passed = poisoned<float>({s.rows, s.in});
    ops::activation_backward(kept.tensor, plain.tensor, passed, args);
    CHECK(unlike(dx.values(), download<float>(passed)) == "");
    check_mask(dx.values(), args.dropout);
    ++variant;
  }
}

TEST_CASE("CUDA tiles: NaN and infinity come through a product, wherever they are") {
  if (!has_gpu()) {
    return;
  }
  const Fallback error(FallbackPolicy::error);
  const std::uint32_t specials[] = {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0xff800001u,
                                    0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu};
  Numbers numbers(5);
  for (const LinearSizes& s : {LinearSizes{32, 64, 16}, LinearSizes{20, 37, 19}}) {
    for (const std::uint32_t bits : specials) {
      float special = 0;
      std::memcpy(&special, &bits, 4);
      for (int side = 0; side < 2; ++side) {
        std::vector<float> x = random_values<float>(s.rows * s.in, 1, 0.5, 1);
        std::vector<float> w = random_values<float>(s.out * s.in, 2, 0.5, 1);
        std::vector<float>& changed = side == 0 ? x : w;
        changed[static_cast<std::size_t>(
            numbers.integer(0, static_cast<std::int64_t>(changed.size()) - 1))] = special;
        Tensor y = poisoned<float>({s.rows, s.out});
        Tensor none;
        cuda::tile::linear_forward(upload(x, {s.rows, s.in}), upload(w, {s.out, s.in}), none, none,
                                   y, {});
        Product want = product_of(s.rows, s.out, s.in, at(x, s.in), transposed(w, s.in));
        for (std::size_t i = 0; i < want.value.size(); ++i) {
          const bool beyond = std::abs(want.value[i]) > 3.4e38;
          want.value[i] = beyond ? std::copysign(double{infinity}, want.value[i]) : want.value[i];
        }
        INFO(std::hex, bits, std::dec, " in ", side == 0 ? "x" : "w");
        CHECK(worst_error(download<float>(y), want, s.in) < 1);
      }
    }
  }
}

}  // namespace
}  // namespace sinter::on_device
