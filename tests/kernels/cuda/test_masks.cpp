// Every fused path of the GPU draws bit for bit the mask of DropoutMask::keep, which is the CPU's:
// for every width, alignment, first index and element type. That keep() itself is right is tested
// in tests/kernels/math.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

constexpr std::int64_t widest = 67;
constexpr std::int64_t rows = 3;  // so that groups of eight cross rows

// Beside the first few: where the group's index, the element's, and 64 bits reach their ends.
const std::vector<std::uint64_t>& firsts() {
  static const std::vector<std::uint64_t> all = [] {
    std::vector<std::uint64_t> list;
    for (std::uint64_t first = 0; first <= 17; ++first) {
      list.push_back(first);
    }
    for (const std::uint64_t first :
         {(std::uint64_t{1} << 31) - 3, (std::uint64_t{1} << 32) - 21,
          (std::uint64_t{1} << 35) - 20, (std::uint64_t{1} << 35) - 8, std::uint64_t{1} << 35,
          (std::uint64_t{1} << 35) + 123, (std::uint64_t{1} << 63) - 5, ~std::uint64_t{0} - 601}) {
      list.push_back(first);
    }
    return list;
  }();
  return all;
}

// Each call takes the next few of the firsts and another of the masks.
class Draws {
 public:
  ops::DropoutArgs next() {
    constexpr double ps[] = {0.1, 0.5, 1.0 / 65536, 0.9, 1 - 1.0 / 65536};
    const auto scheme = turn_ % 2 == 0 ? math::MaskScheme::lanes : math::MaskScheme::triton;
    const double p = ps[turn_ / 2 % 5];
    const std::uint64_t first = firsts()[turn_ * 7 % firsts().size()];
    ++turn_;
    return {math::dropout_mask(p, 0x0123456789abcdef, 3, 7, scheme), first};
  }

 private:
  std::size_t turn_ = 0;
};

std::vector<bool> kept_by(const ops::DropoutArgs& args, std::int64_t n) {
  std::vector<bool> kept(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i] = args.mask.keep(args.first + i);
  }
  return kept;
}

// Elements that were kept are some number, dropped ones 0, and no NaN is left of before the call.
template <class T>
std::string wrong_mask(const std::vector<T>& got, const ops::DropoutArgs& args,
                       const std::vector<bool>& kept) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Real value = value_of(got[i]);
    if (std::isnan(value) || (value != 0) != kept[i]) {
      return text("element ", i, " of ", got.size(), " is ", value, ": first ", args.first, ", p ",
                  args.mask.p);
    }
  }
  return {};
}
template <class T>
std::string wrong_mask(const Placed<T>& got, const ops::DropoutArgs& args,
                       const std::vector<bool>& kept) {
  return wrong_mask(got.values(), args, kept) + got.damage();
}

// All paths on one shape; at 0.75 neither the activations' values nor their slopes are 0.
template <class T>
std::string wrong_path(const Shape& shape, const ops::DropoutArgs& args, std::int64_t shift) {
  const std::int64_t n = shape.numel();
  const std::vector<bool> kept = kept_by(args, n);
  const Placed<T> x(filled<T>(shape, 0.75), shift % 5);
  const Placed<T> dy(filled<T>(shape, 1), shift % 3);
  std::string wrong;

  Placed<T> y(shape, shift % 7);
  ops::dropout(x.tensor, y.tensor, args);
  wrong += wrong_mask(y, args, kept);
  const T scaled(0.75f * static_cast<float>(args.mask.scale()));
  for (const T value : y.values()) {
    wrong += value_of(value) == 0 || value_of(value) == value_of(scaled) ? "" : "wrong scale";
  }

  const auto pass = [&]<class A>(const A& a) {
    const ops::ActivationArgs act{.act = a, .dropout = args, .stored = dtype_of<T>};
    Placed<T> out(shape, shift % 9);
    ops::activation_forward(x.tensor, out.tensor, act);
    wrong += wrong_mask(out, args, kept);
    Placed<T> dx(shape, shift % 4);
    ops::activation_backward(kept_of<A>(x.tensor, out.tensor), dy.tensor, dx.tensor, act);
    wrong += wrong_mask(dx, args, kept);
    Placed<T> fused(shape, shift % 6);
    Tensor sums = poisoned<T>({shape.last()});
    ops::activation_backward_bias(kept_of<A>(x.tensor, out.tensor), dy.tensor, fused.tensor, sums,
                                  act, false);
    wrong += wrong_mask(fused, args, kept);
  };
  pass(math::SiLU{});
  pass(math::Tanh{});
  return wrong;
}

TEST_CASE_TEMPLATE("CUDA: masks of dropout and activations are the CPU's at every width", T, float,
                   float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  Draws draws;
  std::string wrong;
  for (std::int64_t width = 1; width <= widest && wrong.empty(); ++width) {
    for (int turn = 0; turn < 4; ++turn) {
      wrong += wrong_path<T>({rows, width}, draws.next(), width + turn);
    }
  }
  CHECK(wrong == "");
}

TEST_CASE_TEMPLATE("CUDA: masks begin at any element", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  std::string wrong;
  for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
    for (const std::uint64_t first : firsts()) {
      for (const std::int64_t n : {1, 40, 600}) {
        const ops::DropoutArgs args{math::dropout_mask(0.4, 5, 6, 7, scheme), first};
        wrong +=
            wrong.empty() ? wrong_path<T>({n}, args, static_cast<std::int64_t>(first % 11)) : "";
      }
    }
  }
  CHECK(wrong == "");
}

// A Linear on the GPU, whether its pass is one kernel with the product or not.
TEST_CASE_TEMPLATE("CUDA: masks of a linear's pass are the CPU's at every width", T, float, float16,
                   bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback silent(FallbackPolicy::silent);
  Draws draws;
  std::string wrong;
  for (std::int64_t width = 1; width <= widest && wrong.empty(); ++width) {
    const ops::DropoutArgs args = draws.next();
    const Shape shape{5, width};
    const Tensor x = filled<T>({5, 3}, 1);
    const Tensor weight = filled<T>({width, 3}, 0.25);
    const Tensor bias = width % 2 == 0 ? filled<T>({width}, 0.5) : Tensor{};
    ops::ActivationArgs act{.act = {}, .dropout = args, .stored = dtype_of<T>};
    if (width % 3 != 0) {
      act.act = math::SiLU{};
    }
    Placed<T> y(shape, width % 5);
    Tensor z = width % 4 < 2 ? poisoned<T>(shape) : Tensor{};
    ops::linear_forward(x, weight, bias, z, y.tensor, act);
    wrong += wrong_mask(y, args, kept_by(args, shape.numel()));
    if (z.defined()) {  // what comes before dropout is whole
      const std::vector<T> whole(static_cast<std::size_t>(shape.numel()),
                                 T(width % 2 == 0 ? 1.25f : 0.75f));
      wrong += unlike(download<T>(z), whole);
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("CUDA: every activation draws the mask, forward and backward") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  Draws draws;
  const auto check = [&]<class T, class A>(T, const A& a) {
    const std::int64_t n = 1043;
    const ops::DropoutArgs args = draws.next();
    const std::vector<bool> kept = kept_by(args, n);
    const ops::ActivationArgs act{.act = a, .dropout = args, .stored = dtype_of<T>};
    const Tensor x = filled<T>({n}, 0.75);
    const Tensor y = forward<T>(x, act);
    const Tensor dx = backward<T>(kept_of<A>(x, y), filled<T>({n}, 1), act);
    CHECK_MESSAGE(wrong_mask(download<T>(y), args, kept) == "", A::name);
    CHECK_MESSAGE(wrong_mask(download<T>(dx), args, kept) == "", A::name);
  };
  math::for_each_activation([&]<class A>() {
    for (int turn = 0; turn < 4; ++turn) {
      check(float{}, A{});
      check(float16{}, A{});
      check(bfloat16{}, A{});
    }
  });
}

TEST_CASE("CUDA: known answers of the mask") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  struct Answer {
    std::uint64_t seed;
    std::uint32_t call, step;
    std::uint64_t element;
    std::uint32_t lane;
  };
  constexpr std::uint64_t seed = 0x0123456789abcdef;
  for (const Answer& answer :
       {Answer{0, 0, 0, 0, 0xe8d5}, Answer{0, 0, 0, 1, 0x6627}, Answer{seed, 3, 7, 0, 0xca2f},
        Answer{seed, 3, 7, 5, 0x9715}, Answer{seed, 3, 8, 5, 0xcecc}, Answer{seed, 4, 7, 5, 0x7351},
        Answer{~0ull, ~0u, ~0u, 0x7ffffffff, 0xcd81},
        Answer{42, 1, 1000, (1ull << 35) + 123, 0x034d}}) {
    // Kept with the lane as threshold, dropped with the next: the lane itself, read off the GPU.
    for (const std::uint32_t threshold : {answer.lane, answer.lane + 1, 6554u}) {
      math::DropoutMask mask =
          math::dropout_mask(threshold / 65536.0, answer.seed, answer.call, answer.step);
      REQUIRE(mask.threshold == threshold);
      const Tensor one = filled<float>({1}, 1);
      Tensor y = poisoned<float>({1});
      ops::dropout(one, y, {mask, answer.element});
      const float wanted = answer.lane >= threshold ? static_cast<float>(mask.scale()) : 0.0f;
      CAPTURE(answer.lane);
      CAPTURE(threshold);
      CHECK(y.to(Device::cpu()).to_vector<float>() == std::vector<float>{wanted});
    }
  }
}

TEST_CASE("CUDA: the mask does not depend on the element type") {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const std::int64_t n = 100003;
  for (const math::MaskScheme scheme : {math::MaskScheme::lanes, math::MaskScheme::triton}) {
    const ops::DropoutArgs args{math::dropout_mask(0.25, 8, 1, 0, scheme), 3};
    std::vector<std::vector<bool>> masks;
    const auto draw = [&]<class T>(T) {
      Tensor y = poisoned<T>({n});
      ops::dropout(filled<T>({n}, 1), y, args);
      std::vector<bool> mask;
      for (const T value : download<T>(y)) {
        mask.push_back(value_of(value) != 0);
      }
      masks.push_back(mask);
    };
    draw(float{});
    draw(float16{});
    draw(bfloat16{});
    CHECK(masks[0] == kept_by(args, n));
    CHECK(masks[1] == masks[0]);
    CHECK(masks[2] == masks[0]);
  }
}

}  // namespace
}  // namespace sinter::on_device
