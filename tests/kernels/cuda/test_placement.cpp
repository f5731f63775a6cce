// An element's result on the GPU does not depend on where its tensor begins, how long it is, or
// what stands beside it: bit for bit what one long aligned call gives. Values are tested in
// test_values.cpp, masks in test_masks.cpp.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "on_device.h"

namespace sinter::on_device {
namespace {

constexpr std::int64_t longest = (std::int64_t{1} << 20) + 5;
constexpr std::uint64_t first = 5;

struct Shifts {
  std::int64_t x, y, dy, dx;
};
constexpr Shifts all_shifts[] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0},
                                 {0, 0, 0, 1}, {1, 2, 3, 4}, {3, 1, 2, 7}, {4, 4, 4, 4},
                                 {8, 8, 8, 8}, {2, 2, 2, 2}, {1, 1, 1, 1}, {7, 5, 2, 6}};

// Every short length, and those around the tiles of kernels.
std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> all{0};
  for (std::int64_t n = 1; n <= 67; ++n) {
    all.push_back(n);
  }
  for (const std::int64_t tile : {128, 256, 512, 128 * 8, 128 * 16, 2 * 128 * 16, 5 * 128 * 8}) {
    for (std::int64_t n = tile - 9; n <= tile + 9; ++n) {
      all.push_back(n);
    }
  }
  all.push_back(longest - 1);
  all.push_back(longest - 4);
  return all;
}

// Multiples of a group of eight and others.
std::int64_t begin_of(std::int64_t n, std::size_t turn) {
  return std::min(static_cast<std::int64_t>(turn * 3 % 61), longest - n);
}

template <class T>
std::vector<T> part(const std::vector<T>& values, std::int64_t begin, std::int64_t n) {
  return {values.begin() + begin, values.begin() + begin + n};
}

template <class T, class A>
class Whole {
 public:
  Whole(const A& a, double p)
      : args_{.act = a, .dropout = {math::dropout_mask(p, 77, 2, 1), first}, .stored = dtype_of<T>},
        x_(upload(random_values<T>(longest, 21, -6, 6))),
        dy_(upload(random_values<T>(longest, 22, -1, 1))),
        kept_y_(forward<T>(x_, args_)),
        y_(download<T>(kept_y_)),
        dx_(download<T>(backward<T>(kept_of<A>(x_, kept_y_), dy_, args_))) {}

  /// Elements [begin, begin + n) by themselves.
  std::string differs(std::int64_t begin, std::int64_t n, const Shifts& shifts) const {
    ops::ActivationArgs args = args_;
    args.dropout.first = first + static_cast<std::uint64_t>(begin);
    const auto cut = [&](const Tensor& tensor) { return tensor.view_rows(begin, begin + n); };
    const Placed<T> x(cut(x_), shifts.x);
    Placed<T> y({n}, shifts.y);
    ops::activation_forward(x.tensor, y.tensor, args);
    std::string wrong = unlike(y.values(), part(y_, begin, n)) + y.damage();
    const Placed<T> kept(cut(math::derives_from_input<A> ? x_ : kept_y_), shifts.x);
    const Placed<T> dy(cut(dy_), shifts.dy);
    Placed<T> dx({n}, shifts.dx);
    ops::activation_backward(kept.tensor, dy.tensor, dx.tensor, args);
    wrong += unlike(dx.values(), part(dx_, begin, n)) + dx.damage();
    return wrong.empty() ? wrong
                         : text(wrong, "; length ", n, ", shifts ", shifts.x, " ", shifts.y, " ",
                                shifts.dy, " ", shifts.dx);
  }

 private:
  ops::ActivationArgs args_;
  Tensor x_, dy_, kept_y_;
  std::vector<T> y_, dx_;
};

template <class T, class A>
void check_everywhere(const A& a, double p) {
  const Whole<T, A> whole(a, p);
  std::string wrong;
  std::size_t turn = 0;
  for (const std::int64_t n : lengths()) {
    for (int times = 0; times < 4 && wrong.empty(); ++times, ++turn) {
      const std::int64_t begin = begin_of(n, turn);
      wrong += whole.differs(begin, n, all_shifts[turn % std::size(all_shifts)]);
    }
  }
  CHECK_MESSAGE(wrong == "", described(a), ", p = ", p);
}

TEST_CASE_TEMPLATE("CUDA: activations at any alignment and length", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  for (const double p : {0.0, 0.3}) {
    check_everywhere<T>(math::GELU{}, p);
    check_everywhere<T>(math::Sigmoid{}, p);
  }
}

TEST_CASE_TEMPLATE("CUDA: dropout at any alignment and length", T, float, float16, bfloat16) {
  if (!has_gpu()) {
    return;
  }
  const Fallback none(FallbackPolicy::error);
  const math::DropoutMask mask = math::dropout_mask(0.3, 78, 2, 1);
  const Tensor all = upload(random_values<T>(longest, 23, -6, 6));
  Tensor out = poisoned<T>({longest});
  ops::dropout(all, out, {mask, first});
  const std::vector<T> wanted = download<T>(out);
  std::string wrong;
  std::size_t turn = 0;
  for (const std::int64_t n : lengths()) {
    for (int times = 0; times < 3 && wrong.empty(); ++times, ++turn) {
      const std::int64_t begin = begin_of(n, turn);
      const Shifts& shifts = all_shifts[turn % std::size(all_shifts)];
      const Placed<T> x(all.view_rows(begin, begin + n), shifts.x);
      Placed<T> y({n}, shifts.y);
      ops::dropout(x.tensor, y.tensor, {mask, first + static_cast<std::uint64_t>(begin)});
      wrong += unlike(y.values(), part(wanted, begin, n)) + y.damage();
    }
  }
  CHECK(wrong == "");
}

}  // namespace
}  // namespace sinter::on_device
