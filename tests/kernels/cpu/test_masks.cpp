// Every path that draws a dropout mask draws the same one: bit for bit DropoutMask::keep, for every
// width, from every first index. That keep() itself is right is tested in tests/kernels/math.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "activation_cases.h"

namespace sinter {
namespace {

constexpr math::MaskScheme schemes[] = {math::MaskScheme::lanes, math::MaskScheme::triton};
constexpr std::uint64_t firsts[] = {0, 1, 13, (std::uint64_t{1} << 32) - 21,
                                    (std::uint64_t{1} << 35) + 123};
constexpr std::int64_t widest = 67;

// All elements that a path kept came out as something else than 0; `values` starts with the element
// of mask index `first`.
template <class T>
std::string wrong_mask(const Tensor& values, const math::DropoutMask& mask, std::uint64_t first) {
  const std::vector<T> got = values.to_vector<T>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if ((got[i] != T(0)) != mask.keep(first + i)) {
      return text("element ", i, " of ", got.size(), ", first ", first, ", p ", mask.p);
    }
  }
  return {};
}

// A tensor of n elements, every one `value`, between guards that nothing may touch.
template <class T>
class Guarded {
 public:
  Guarded(std::int64_t n, double value)
      : whole_(Tensor::full({3, n}, -55, dtype_of<T>)), inside(whole_.view_rows(1, 2)) {
    inside.fill(value);
  }
  bool intact() const {
    const std::vector<T> values = whole_.to_vector<T>();
    const std::size_t n = values.size() / 3;
    for (std::size_t i = 0; i < n; ++i) {
      if (values[i] != T(-55) || values[2 * n + i] != T(-55)) {
        return false;
      }
    }
    return true;
  }

 private:
  Tensor whole_;

 public:
  Tensor inside;
};

template <class Use>
void for_each_mask(Use use) {
  for (const math::MaskScheme scheme : schemes) {
    for (const std::uint64_t first : firsts) {
      for (const double p : {0.1, 0.5}) {
        use(ops::DropoutArgs{math::dropout_mask(p, 0x0123456789abcdef, 3, 7, scheme), first});
      }
    }
    // All but one lane, or one lane in 65,536.
    use(ops::DropoutArgs{math::dropout_mask(1.0 / 65536, 5, 0, 0, scheme), 3});
    use(ops::DropoutArgs{math::dropout_mask(1 - 1.0 / 65536, 5, 0, 0, scheme), 3});
  }
}

TEST_CASE_TEMPLATE("dropout alone: every width", T, float, double) {
  std::string wrong;
  for_each_mask([&](const ops::DropoutArgs& args) {
    for (std::int64_t n = 1; n <= widest && wrong.empty(); ++n) {
      Guarded<T> x(n, 1);
      Guarded<T> y(n, -3);
      ops::dropout(x.inside, y.inside, args);
      wrong += wrong_mask<T>(y.inside, args.mask, args.first);
      wrong += y.intact() && x.intact() ? "" : "wrote outside";
    }
  });
  CHECK(wrong == "");
}

TEST_CASE_TEMPLATE("activation with dropout, forward and backward: every activation and width", T,
                   float, double) {
  // At 0.75 no activation and no slope is 0.
  for_each_activation_case([]<class A>(const A& a) {
    if constexpr (requires { a.lambd; }) {
      if (a.lambd > 0.75) {
        return;
      }
    }
    std::string wrong;
    for_each_mask([&](const ops::DropoutArgs& dropout) {
      const ops::ActivationArgs args{.act = a, .dropout = dropout, .stored = dtype_of<T>};
      for (std::int64_t n = 1; n <= widest && wrong.empty(); ++n) {
        const Tensor x = Tensor::full({1, n}, 0.75, dtype_of<T>);
        const Tensor dy = Tensor::full({1, n}, 1, dtype_of<T>);
        Guarded<T> y(n, -3);
        Guarded<T> dx(n, -3);
        ops::activation_forward(x, y.inside, args);
        ops::activation_backward(kept_of<A>(x, y.inside), dy, dx.inside, args);
        wrong += wrong_mask<T>(y.inside, dropout.mask, dropout.first);
        wrong += wrong_mask<T>(dx.inside, dropout.mask, dropout.first);
        wrong += y.intact() && dx.intact() ? "" : "wrote outside";
      }
    });
    CHECK_MESSAGE(wrong == "", A::name);
  });
}

TEST_CASE_TEMPLATE("linear with dropout: every number of columns, over several rows", T, float,
                   double) {
  for (const bool with_activation : {false, true}) {
    for (const bool with_z : {false, true}) {
      std::string wrong;
      for_each_mask([&](const ops::DropoutArgs& dropout) {
        ops::ActivationArgs args{.act = {}, .dropout = dropout, .stored = dtype_of<T>};
        if (with_activation) {
          args.act = math::SiLU{};
        }
        for (std::int64_t n = 1; n <= widest && wrong.empty(); ++n) {
          const Tensor x = Tensor::full({5, 3}, 1, dtype_of<T>);
          const Tensor weight = Tensor::full({n, 3}, 0.25, dtype_of<T>);
          const Tensor bias = Tensor::full({n}, 0.5, dtype_of<T>);
          Guarded<T> y(5 * n, -3);
          Tensor out = y.inside.reshape({5, n});
          Tensor z = with_z ? Tensor::zeros({5, n}, dtype_of<T>) : Tensor{};
          ops::linear_forward(x, weight, n % 2 == 0 ? bias : Tensor{}, z, out, args);
          wrong += wrong_mask<T>(out, dropout.mask, dropout.first);
          wrong += y.intact() ? "" : "wrote outside";
          if (with_z) {  // what comes before dropout is whole
            const std::vector<Real> wanted(static_cast<std::size_t>(5 * n),
                                           n % 2 == 0 ? 1.25L : 0.75L);
            wrong += apart_by_ulps<T>(z, wanted, 0);
          }
        }
      });
      CHECK(wrong == "");
    }
  }
}

TEST_CASE_TEMPLATE("linear with dropout, cut into pieces by rows and by columns", T, float,
                   double) {
  const KeepThreads keep;
  set_num_threads(3);
  const ops::ActivationArgs args{
      .act = {}, .dropout = {math::dropout_mask(0.3, 99, 1, 0), (std::uint64_t{1} << 33) + 5}};
  for (const auto& [rows, columns] : {std::pair{1301, 203}, std::pair{203, 1301}}) {
    const Tensor x = Tensor::full({rows, 67}, 1, dtype_of<T>);
    const Tensor weight = Tensor::full({columns, 67}, 0.25, dtype_of<T>);
    Tensor none;
    Tensor y = Tensor::zeros({rows, columns}, dtype_of<T>);
    ops::linear_forward(x, weight, none, none, y, args);
    CHECK(wrong_mask<T>(y, args.dropout.mask, args.dropout.first) == "");
  }
}

TEST_CASE_TEMPLATE("linear with dropout over many short rows", T, float, double) {
  for (const std::int64_t columns : {1, 3, 8, 67, 2047, 2049}) {
    const std::int64_t rows = 9001 / columns + 1;
    const ops::ActivationArgs args{.act = {}, .dropout = {math::dropout_mask(0.3, 4, 1, 0), 13}};
    const Tensor x = Tensor::full({rows, 2}, 1, dtype_of<T>);
    const Tensor weight = Tensor::full({columns, 2}, 0.25, dtype_of<T>);
    const Tensor bias = Tensor::full({columns}, 1, dtype_of<T>);
    Tensor none;
    Tensor y = Tensor::zeros({rows, columns}, dtype_of<T>);
    ops::linear_forward(x, weight, bias, none, y, args);
    CAPTURE(columns);
    CHECK(wrong_mask<T>(y, args.dropout.mask, args.dropout.first) == "");
  }
}

TEST_CASE_TEMPLATE("long tensors, cut into pieces", T, float, double) {
  const KeepThreads keep;
  set_num_threads(3);
  for (const math::MaskScheme scheme : schemes) {
    const ops::DropoutArgs args{math::dropout_mask(0.2, 17, 2, 9, scheme),
                                (std::uint64_t{1} << 32) - 50001};
    const Tensor x = Tensor::full({100003}, 1, dtype_of<T>);
    Tensor y = Tensor::zeros({100003}, dtype_of<T>);
    ops::dropout(x, y, args);
    CHECK(wrong_mask<T>(y, args.mask, args.first) == "");
  }
}

TEST_CASE("the mask of a tensor is that of its parts, whatever the element type") {
  // 1,000 elements in two halves, as two devices would draw them.
  const ops::DropoutArgs whole{math::dropout_mask(0.5, 1, 0, 0), 7};
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    const Tensor x = Tensor::full({1000}, 1, dtype);
    Tensor y = Tensor::zeros({1000}, dtype);
    ops::dropout(x, y, whole);
    CHECK(wrong_mask<double>(y.to(DType::float64), whole.mask, 7) == "");
    for (const std::int64_t cut : {1, 333, 500}) {
      Tensor left = Tensor::zeros({cut}, dtype);
      Tensor right = Tensor::zeros({1000 - cut}, dtype);
      ops::dropout(x.view_rows(0, cut), left, whole);
      ops::dropout(x.view_rows(cut, 1000), right,
                   {whole.mask, 7 + static_cast<std::uint64_t>(cut)});
      CHECK(different(left, y.view_rows(0, cut)) == "");
      CHECK(different(right, y.view_rows(cut, 1000)) == "");
    }
  }
}

}  // namespace
}  // namespace sinter
