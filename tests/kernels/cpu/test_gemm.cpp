// The matrix product of every copy of the kernels against sums in float64, for sizes around those
// of tiles, panels and blocks, with rows further apart than they are long.

#include <array>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "compare.h"
#include "copies.h"
#include <sinter/runtime/error.h>

// AddressSanitizer would end the program instead of letting an allocation fail.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace sinter::cpu {
namespace {

/// One product: operands as stored, with some elements between their rows, and what c held before.
template <class T>
struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  std::int64_t lda, ldb, ldc;
  std::vector<T> a, b, c;

  /// `which` gives the flags. What lies between rows is NaN, and so is a c that is not to be read.
  Product(std::int64_t rows, std::int64_t columns, std::int64_t depth, int which, int gap)
      : m(rows),
        n(columns),
        k(depth),
        transpose_a((which & 1) != 0),
        transpose_b((which & 2) != 0),
        accumulate((which & 4) != 0),
        lda((transpose_a ? m : k) + gap),
        ldb((transpose_b ? k : n) + gap),
        ldc(n + gap) {
    Numbers numbers(static_cast<std::uint64_t>(m + 1000 * n + 1000000 * k + which));
    const auto fill = [&](std::int64_t height, std::int64_t width, std::int64_t ld, bool known) {
      std::vector<T> out(static_cast<std::size_t>(height * ld), static_cast<T>(not_a_number));
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; known && j < width; ++j) {
          out[static_cast<std::size_t>(i * ld + j)] = static_cast<T>(numbers.real(-1, 1));
        }
      }
      return out;
    };
    a = fill(transpose_a ? k : m, transpose_a ? m : k, lda, true);
    b = fill(transpose_b ? n : k, transpose_b ? k : n, ldb, true);
    c = fill(m, n, ldc, accumulate);
  }

  T& left(std::int64_t i, std::int64_t p) {
    return a[static_cast<std::size_t>(transpose_a ? p * lda + i : i * lda + p)];
  }
  T& right(std::int64_t p, std::int64_t j) {
    return b[static_cast<std::size_t>(transpose_b ? j * ldb + p : p * ldb + j)];
  }

  /// Computes the part of c that begins at (top, left_column).
  void run(const Kernels<T>& table, std::vector<T>& out, std::int64_t top, std::int64_t rows,
           std::int64_t first, std::int64_t columns) {
    const T* from_a = a.data() + (transpose_a ? top : top * lda);
    const T* from_b = b.data() + (transpose_b ? first * ldb : first);
    table.gemm(transpose_a, transpose_b, rows, columns, k, from_a, lda, from_b, ldb, accumulate,
               out.data() + top * ldc + first, ldc);
  }
  std::vector<T> run(const Kernels<T>& table) {
    std::vector<T> out = c;
    run(table, out, 0, m, 0, n);
    return out;
  }

  /// Empty if `out` is right.
  std::string wrong(const std::vector<T>& out) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < ldc; ++j) {
        const auto at = static_cast<std::size_t>(i * ldc + j);
        if (j >= n) {
          if (!std::isnan(out[at])) {
            return text("wrote beside row ", i);
          }
          continue;
        }
        double sum = accumulate ? static_cast<double>(c[at]) : 0.0;
        double size = std::abs(sum);
        for (std::int64_t p = 0; p < k; ++p) {
          const double term = static_cast<double>(left(i, p)) * static_cast<double>(right(p, j));
          sum += term;
          size += std::abs(term);
        }
        const double limit = static_cast<double>(std::numeric_limits<T>::epsilon()) *
                             static_cast<double>(k + 2) * size;
        const double got = static_cast<double>(out[at]);
        const bool good = std::isnan(sum)   ? std::isnan(got)
                          : std::isinf(sum) ? got == sum
                                            : std::abs(got - sum) <= limit;
        if (!good) {
          return text("element (", i, ", ", j, ") is ", got, ", not ", sum);
        }
      }
    }
    return {};
  }

  std::string name() const {
    return text(m, " x ", n, " x ", k, ", a ", transpose_a ? "transposed" : "as it is", ", b ",
                transpose_b ? "transposed" : "as it is", accumulate ? ", added" : "");
  }
};

template <class T, class Use>
void for_every_product(const std::vector<std::array<std::int64_t, 3>>& sizes, int flags, Use use) {
  for (const auto& [m, n, k] : sizes) {
    for (int which = 0; which < flags; ++which) {
      Product<T> product(m, n, k, which, which % 3);
      for (const auto& copy : copies<T>()) {
        const std::string wrong = use(product, *copy.table);
        CHECK_MESSAGE(wrong == "", std::string(copy.name), ": ", product.name());
      }
    }
  }
}

std::vector<std::array<std::int64_t, 3>> grid(std::initializer_list<std::int64_t> side) {
  std::vector<std::array<std::int64_t, 3>> out;
  for (const std::int64_t m : side) {
    for (const std::int64_t n : side) {
      for (const std::int64_t k : side) {
        out.push_back({m, n, k});
      }
    }
  }
  return out;
}

TEST_CASE_TEMPLATE("products of every copy are the sums of float64", T, float, double) {
  const auto check = [](Product<T>& product, const Kernels<T>& table) {
    return product.wrong(product.run(table));
  };
  for_every_product<T>(grid({0, 1, 2, 3, 5, 8, 17, 33, 49}), 8, check);
  // Several panels, blocks of the depth and of columns, few rows and columns beside them.
  for_every_product<T>({{16, 97, 513},
                        {17, 100, 515},
                        {8, 131, 1025},
                        {5, 97, 70},
                        {3, 97, 9},
                        {1, 200, 13},
                        {200, 1, 13},
                        {97, 16, 513},
                        {131, 67, 300},
                        {67, 131, 300},
                        {20, 1100, 530},
                        {1100, 20, 530}},
                       8, check);
}

TEST_CASE_TEMPLATE("NaN and infinities are in no element but theirs", T, float, double) {
  for_every_product<T>({{1, 1, 1},
                        {3, 5, 2},
                        {4, 97, 9},
                        {10, 33, 40},
                        {16, 20, 33},
                        {35, 51, 70},
                        {51, 35, 70},
                        {70, 1, 40}},
                       8, [](Product<T> product, const Kernels<T>& table) {
                         // 0 times an infinity, at the corners, where tiles are filled up.
                         for (std::int64_t p = 0; p < product.k; ++p) {
                           product.left(0, p) = T(0);
                         }
                         product.right(product.k - 1, product.n - 1) = static_cast<T>(infinity);
                         product.left(product.m - 1, product.k / 2) =
                             static_cast<T>(product.m > 2 ? not_a_number : 1);
                         product.left(product.m / 2, 0) = static_cast<T>(-infinity);
                         return product.wrong(product.run(table));
                       });
}

TEST_CASE_TEMPLATE("lanes beside the last column raise no exceptions", T, float, double) {
  for_every_product<T>(
      {{1, 5, 3}, {5, 1, 3}, {4, 101, 7}, {10, 35, 37}, {35, 53, 37}, {53, 35, 37}, {100, 3, 5}}, 8,
      [](Product<T> product, const Kernels<T>& table) {
        for (T& value : product.b) {
          value = std::abs(value) + T(0.5);  // never 0
        }
        for (std::int64_t i = 0; i < product.m; ++i) {
          product.left(i, product.k - 1) = static_cast<T>(infinity);
        }
        std::feclearexcept(FE_ALL_EXCEPT);
        const std::vector<T> out = product.run(table);
        return std::fetestexcept(FE_INVALID) != 0 ? "invalid operation" : product.wrong(out);
      });
}

TEST_CASE_TEMPLATE("an element is the same bits wherever a product is cut", T, float, double) {
  for_every_product<T>({{80, 260, 30}, {130, 200, 1100}, {260, 80, 530}}, 8,
                       [](Product<T>& product, const Kernels<T>& table) {
                         const std::vector<T> whole = product.run(table);
                         std::string wrong;
                         for (const std::int64_t at : {17, 31, 48, 63}) {
                           std::vector<T> out = product.c;
                           product.run(table, out, 0, at, 0, product.n);
                           product.run(table, out, at, product.m - at, 0, product.n);
                           if (std::memcmp(out.data(), whole.data(), out.size() * sizeof(T)) != 0) {
                             wrong += text("rows cut at ", at, "; ");
                           }
                           out = product.c;
                           product.run(table, out, 0, product.m, 0, at);
                           product.run(table, out, 0, product.m, at, product.n - at);
                           if (std::memcmp(out.data(), whole.data(), out.size() * sizeof(T)) != 0) {
                             wrong += text("columns cut at ", at, "; ");
                           }
                         }
                         return wrong;
                       });
}

TEST_CASE("room for packed operands is a thread's own, aligned, and kept") {
  void* const first = packing_room(100);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  std::memset(first, 1, 100);
  CHECK(packing_room(10) == first);
  void* other = first;
  std::thread([&] { other = packing_room(100); }).join();
  CHECK(other != first);
}

TEST_CASE("no room for packed operands is an Error, after which there is room again") {
  std::string message;
  try {
    packing_room(std::numeric_limits<std::int64_t>::max() / 2);
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("cpu out of memory: asked for ") == 0);
  CHECK(message.find("to pack a matrix product") != std::string::npos);
  CHECK(packing_room(64) != nullptr);
}

}  // namespace
}  // namespace sinter::cpu
