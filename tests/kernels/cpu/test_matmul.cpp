// Matrix products. With small integers as elements every sum is exact in float32 and float64, so
// that results are compared for equality whatever order a kernel adds in.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include <sinter/kernels/ops.h>

namespace sinter {
namespace {

constexpr std::int64_t sizes[] = {0, 1, 2, 3, 4, 5, 31, 33, 127, 129, 255, 257};

using Integers = std::vector<std::int32_t>;

Integers random(std::int64_t count, Numbers& numbers) {
  Integers out(static_cast<std::size_t>(count));
  for (auto& value : out) {
    value = static_cast<std::int32_t>(numbers.integer(-3, 3));
  }
  return out;
}

Integers transposed(const Integers& a, std::int64_t rows, std::int64_t columns) {
  Integers out(a.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      out[static_cast<std::size_t>(j * rows + i)] = a[static_cast<std::size_t>(i * columns + j)];
    }
  }
  return out;
}

// Row i of a b.
void add_row(const Integers& a, const Integers& b, std::int64_t i, std::int64_t k, std::int64_t n,
             std::int32_t* out) {
  for (std::int64_t l = 0; l < k; ++l) {
    const std::int32_t factor = a[static_cast<std::size_t>(i * k + l)];
    const std::int32_t* row = b.data() + l * n;
    for (std::int64_t j = 0; j < n; ++j) {
      out[j] += factor * row[j];
    }
  }
}

Integers product(const Integers& a, const Integers& b, std::int64_t m, std::int64_t k,
                 std::int64_t n) {
  Integers out(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    add_row(a, b, i, k, n, out.data() + i * n);
  }
  return out;
}

template <class T>
Tensor as(const Integers& values, const Shape& shape) {
  return Tensor::from(std::vector<T>(values.begin(), values.end()), shape);
}

TEST_CASE_TEMPLATE("all transpositions, accumulating or not, for sizes beside those of tiles", T,
                   float, double) {
  Numbers numbers(1);
  std::string wrong;
  for (const std::int64_t m : sizes) {
    for (const std::int64_t n : sizes) {
      for (const std::int64_t k : sizes) {
        if (m > 100 && n > 100 && k > 100 && k != m && k != n) {
          continue;  // enough of the large ones
        }
        const Integers a = random(m * k, numbers);
        const Integers b = random(k * n, numbers);
        const Integers c = product(a, b, m, k, n);
        const Tensor as_a[] = {as<T>(a, {m, k}), as<T>(transposed(a, m, k), {k, m})};
        const Tensor as_b[] = {as<T>(b, {k, n}), as<T>(transposed(b, k, n), {n, k})};
        for (int which = 0; which < 8; ++which) {
          const ops::MatmulArgs args{.transpose_a = (which & 1) != 0,
                                     .transpose_b = (which & 2) != 0,
                                     .accumulate = (which & 4) != 0};
          // What is not accumulated to must not even be read.
          Tensor out = Tensor::full({m, n}, args.accumulate ? 5 : not_a_number, dtype_of<T>);
          ops::matmul(as_a[args.transpose_a], as_b[args.transpose_b], out, args);
          const T* got = out.data<T>();
          for (std::size_t i = 0; i < c.size(); ++i) {
            if (got[i] != static_cast<T>(c[i] + (args.accumulate ? 5 : 0)) && wrong.empty()) {
              wrong = text(m, "x", k, " times ", k, "x", n, ", case ", which, ": element ", i,
                           " is ", got[i], ", not ", c[i]);
            }
          }
        }
      }
    }
  }
  CHECK(wrong == "");
}

// Compares some rows, those at the edges of pieces among them, for products that are cut into
// pieces.
template <class T>
std::string check_rows(std::int64_t m, std::int64_t n, std::int64_t k) {
  Numbers numbers(static_cast<std::uint64_t>(m + n + k));
  const Integers a = random(m * k, numbers);
  const Integers b = random(k * n, numbers);
  const Tensor as_a[] = {as<T>(a, {m, k}), as<T>(transposed(a, m, k), {k, m})};
  const Tensor as_b[] = {as<T>(b, {k, n}), as<T>(transposed(b, k, n), {n, k})};
  for (int which = 0; which < 8; ++which) {
    const ops::MatmulArgs args{.transpose_a = (which & 1) != 0,
                               .transpose_b = (which & 2) != 0,
                               .accumulate = (which & 4) != 0};
    Tensor out = Tensor::full({m, n}, args.accumulate ? -9 : not_a_number, dtype_of<T>);
    ops::matmul(as_a[args.transpose_a], as_b[args.transpose_b], out, args);
    for (std::int64_t i = 0; i < m; i += i % 48 == 0 || i % 48 == 46 ? 1 : i % 48 == 1 ? 45 : 1) {
      Integers row(static_cast<std::size_t>(n), args.accumulate ? -9 : 0);
      add_row(a, b, i, k, n, row.data());
      const Tensor got = out.view_rows(i, i + 1).reshape({n});
      if (different(got, as<T>(row, {n})) != "") {
        return text(m, "x", k, " times ", k, "x", n, ", case ", which, ": row ", i);
      }
    }
    for (const T value : out.values<T>()) {
      if (value != value) {
        return text(m, "x", k, " times ", k, "x", n, ", case ", which, ": elements not written");
      }
    }
  }
  return {};
}

TEST_CASE_TEMPLATE("products cut into pieces by rows and by columns", T, float, double) {
  const KeepThreads keep;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    CHECK(check_rows<T>(401, 130, 301) == "");  // 2 pieces
    CHECK(check_rows<T>(130, 401, 301) == "");
    CHECK(check_rows<T>(701, 399, 403) == "");  // 4
    CHECK(check_rows<T>(399, 701, 403) == "");
    CHECK(check_rows<T>(20001, 3, 200) == "");  // tall, flat
    CHECK(check_rows<T>(3, 20001, 200) == "");
  }
}

TEST_CASE("products cut into the most pieces there are") {
  const KeepThreads keep;
  set_num_threads(3);
  CHECK(check_rows<float>(1301, 901, 903) == "");
  CHECK(check_rows<float>(901, 1301, 903) == "");
}

TEST_CASE_TEMPLATE("the rounding error is that of k additions", T, float, double) {
  Numbers numbers(6);
  for (const std::int64_t k : {1, 7, 64, 1000, 5000}) {
    const std::int64_t m = 37;
    const std::int64_t n = 29;
    const Tensor a = random_tensor<T>({m, k}, numbers, -1, 1);
    const Tensor b = random_tensor<T>({n, k}, numbers, -1, 1);
    Tensor c = Tensor::zeros({m, n}, dtype_of<T>);
    ops::matmul(a, b, c, {.transpose_b = true});
    std::vector<Real> wanted;
    std::vector<Real> magnitude;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        Real sum = 0;
        Real size = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const Real term = Real(a.data<T>()[i * k + l]) * Real(b.data<T>()[j * k + l]);
          sum += term;
          size += std::abs(term);
        }
        wanted.push_back(sum);
        magnitude.push_back(size);
      }
    }
    CAPTURE(k);
    CHECK(apart<T>(c, wanted, [&](std::size_t i) {
            return std::numeric_limits<T>::epsilon() * std::sqrt(Real(k)) * magnitude[i];
          }) == "");
  }
}

TEST_CASE_TEMPLATE("infinities and NaN go where they belong", T, float, double) {
  Tensor a = Tensor::full({3, 4}, 1, dtype_of<T>);
  a.data<T>()[4] = static_cast<T>(infinity);
  a.data<T>()[11] = static_cast<T>(not_a_number);
  const Tensor b = Tensor::full({4, 2}, 2, dtype_of<T>);
  Tensor c = Tensor::zeros({3, 2}, dtype_of<T>);
  ops::matmul(a, b, c, {});
  CHECK(apart_by_ulps<T>(c, {8, 8, infinity, infinity, not_a_number, not_a_number}, 0) == "");
}

}  // namespace
}  // namespace sinter
