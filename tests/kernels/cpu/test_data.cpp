// gather_rows and gather_normalise: from a data set to a batch.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../../runtime/sentence.h"
#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

Tensor indices(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST_CASE("rows of any type are picked by index, again and in any order") {
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16,
                            DType::int64, DType::int32, DType::uint8}) {
    CAPTURE(dtype);
    std::vector<std::int32_t> values;
    for (int i = 0; i < 5 * 3 * 2; ++i) {
      values.push_back(i);
    }
    const Tensor rows = Tensor::from(values, {5, 3, 2}).to(dtype);
    Tensor y = Tensor::full({4, 3, 2}, 99, dtype);
    ops::gather_rows(rows, indices({4, 0, 4, 2}), y);
    for (const auto& [to, from] :
         {std::pair{0, 4}, std::pair{1, 0}, std::pair{2, 4}, std::pair{3, 2}}) {
      CHECK(different(y.view_rows(to, to + 1), rows.view_rows(from, from + 1)) == "");
    }
  }
}

TEST_CASE("labels are rows of one element, and an empty batch is none") {
  const Tensor labels = Tensor::from(std::vector<std::uint8_t>{9, 8, 7}, {3});
  Tensor y = Tensor::zeros({2}, DType::uint8);
  ops::gather_rows(labels, indices({2, 0}), y);
  CHECK(y.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{7, 9});
  Tensor nothing = Tensor::zeros({0}, DType::uint8);
  ops::gather_rows(labels, indices({}), nothing);
  ops::gather_rows(Tensor::zeros({0, 4}), indices({}), nothing);
  Tensor narrow = Tensor::zeros({2, 0});
  ops::gather_rows(Tensor::zeros({3, 0}), indices({1, 1}), narrow);
}

TEST_CASE("an index that is not there is named with its position, and the next call works") {
  const Tensor rows = Tensor::full({3, 2}, 1);
  const Tensor bytes = Tensor::full({3, 2}, 1, DType::uint8);
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    const Tensor picked = indices({0, 2, bad, 1});
    Tensor y = Tensor::zeros({4, 2});
    check_refused([&] { ops::gather_rows(rows, picked, y); },
                  {"gather_rows", text("index ", bad), "position 2", "[0, 3)"});
    check_refused([&] { ops::gather_normalise(bytes, picked, y, {}); },
                  {"gather_normalise", text("index ", bad), "position 2", "[0, 3)"});
    ops::gather_rows(rows, indices({0, 1, 2, 2}), y);
    CHECK(y.to_vector<float>() == std::vector<float>(8, 1.0f));
  }
  Tensor y = Tensor::zeros({1, 2});
  check_refused(
      [&] {
        ops::gather_rows(Tensor::zeros({0, 2}), indices({0}), y);
      },
      {"index 0", "[0, 0)"});
}

TEST_CASE("of several wrong indices the first is named, for any number of threads") {
  const KeepThreads keep;
  std::vector<std::int64_t> wrong(5000, 0);
  wrong[801] = 10;
  for (std::size_t i = 900; i < 5000; i += 100) {
    wrong[i] = 11;
  }
  const Tensor rows = Tensor::zeros({10, 500});
  Tensor y = Tensor::zeros({5000, 500});
  for (int threads = 1; threads <= 4; ++threads) {
    set_num_threads(threads);
    check_refused([&] { ops::gather_rows(rows, indices(wrong), y); }, {"index 10", "position 801"});
  }
}

TEST_CASE_TEMPLATE("bytes become (x / 255 - mean) / std, 2 ulp in float32", T, float, double) {
  std::vector<std::uint8_t> all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<std::uint8_t>(i));
  }
  const Tensor bytes = Tensor::from(all, {16, 16});
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 16; ++i) {
    order.push_back(i * 5 % 16);
  }
  for (const ops::NormaliseArgs& args :
       {ops::NormaliseArgs{}, ops::NormaliseArgs{.mean = 0.1307, .std = 0.3081},
        ops::NormaliseArgs{.mean = 0.5, .std = 0.5}, ops::NormaliseArgs{.mean = 0.4, .std = 2}}) {
    CAPTURE(args.mean);
    Tensor y = Tensor::full({16, 16}, not_a_number, dtype_of<T>);
    ops::gather_normalise(bytes, indices(order), y, args);
    std::vector<Real> wanted;
    for (const std::int64_t row : order) {
      for (int j = 0; j < 16; ++j) {
        const auto x = static_cast<Real>(all[static_cast<std::size_t>(row * 16 + j)]);
        wanted.push_back((x / 255 - Real{args.mean}) / Real{args.std});
      }
    }
    // The two terms cancel beside the mean; what float64 loses there is lost.
    CHECK(apart_by_ulps<T>(y, wanted, 2, 4e-16 / args.std) == "");
  }
}

TEST_CASE("bytes become 16-bit numbers with one rounding") {
  const Tensor bytes = Tensor::from(std::vector<std::uint8_t>{0, 51, 128, 255}, {4, 1});
  Tensor y = Tensor::zeros({4, 1}, DType::bfloat16);
  ops::gather_normalise(bytes, indices({0, 1, 2, 3}), y, {});
  CHECK(y.to(DType::float32).to_vector<float>() ==
        std::vector<float>{0, static_cast<float>(bfloat16(0.2f)),
                           static_cast<float>(bfloat16(128.0f / 255.0f)), 1});
}

}  // namespace
}  // namespace sinter
