#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <sinter/runtime/error.h>

namespace golden {

using sinter::DType;
using sinter::Tensor;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Format {
  int digits;  // of the significand, the hidden one included
  int lowest;  // exponent of the smallest normal number
  int highest;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return {53, -1022, 1023};
    case DType::float32:
      return {24, -126, 127};
    case DType::float16:
      return {11, -14, 15};
    case DType::bfloat16:
      return {8, -126, 127};
    default:
      throw sinter::Error(sinter::text("results of type ", dtype, " are not compared"));
  }
}

double epsilon(DType dtype) { return std::ldexp(1.0, 1 - format_of(dtype).digits); }

// An infinity of the type counts as the number that would follow its largest: what overflows is
// then equal to an infinity, and one where none is due is off by an ulp or more.
double within_range(DType dtype, double value) {
  const double bound =
      dtype == DType::float64 ? infinity : std::ldexp(1.0, format_of(dtype).highest + 1);
  return std::isnan(value) ? value : std::clamp(value, -bound, bound);
}

std::string printed(double value, const char* format) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string exactly(double value) { return printed(value, "%.17g"); }
std::string roughly(double value) { return printed(value, "%.3g"); }

std::vector<double> doubles(const Tensor& tensor) {
  const Tensor host = tensor.detach().to(sinter::Device::cpu());
  return host.to(DType::float64).to_vector<double>();
}

std::string index_in(const sinter::Shape& shape, std::size_t i) {
  std::string text = "]";
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    const auto size = static_cast<std::size_t>(shape[dim]);
    text = (dim > 0 ? ", " : "") + std::to_string(i % size) + text;
    i /= size;
  }
  return "[" + text;
}

struct Error {
  double size = 0.0;
  double allowed = 0.0;

  // How many times more than allowed. A number where none is due, or the other way round, is
  // outside whatever is allowed.
  double excess() const {
    if (size == 0) {
      return 0.0;
    }
    return std::isfinite(size) && std::isfinite(allowed) ? size / allowed : infinity;
  }
};

Error error_of(DType dtype, double got, double expected, double largest, const Limit& limit) {
  const double a = within_range(dtype, got), b = within_range(dtype, expected);
  Error error;
  if (a != b && !(std::isnan(a) && std::isnan(b))) {
    error.size = std::isnan(a - b) ? infinity : std::abs(a - b);
  }
  error.allowed = limit.ulps * spacing(dtype, b) + limit.relative * std::abs(b) +
                  limit.of_largest * largest + limit.absolute;
  return error;
}

}  // namespace

// Float64 results are compared as a check of the formula, with a bound that any careful evaluation
// keeps; the narrow types by what docs/design.md promises of them.
Limit activation_limit(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return {.relative = 1e-12, .absolute = 1e-300};
    case DType::float32:
      return {.ulps = 2};
    default:
      return {.ulps = 1};
  }
}

// Exact for the output as it was stored, whose rounding the derivative at the input never saw.
Limit derivative_from_output_limit(DType dtype) {
  Limit limit = activation_limit(dtype);
  limit.absolute += epsilon(dtype);
  return limit;
}

// Sums in float64 differ by their order alone. In float32 the inputs are already rounded, and an
// element that nearly cancels keeps an error in proportion to its terms, not to itself: hence the
// tensor's largest magnitude. 1e-5 of it is 84 roundings; of 784 products, whose roundings add up
// at random, one expects about 28.
Limit layer_limit(DType dtype) {
  if (dtype == DType::float64) {
    return {.relative = 1e-9, .absolute = 1e-12};
  }
  return {.of_largest = 1e-5};
}

// Thirty steps feed their rounding into each other, and Adam divides by the roots of squares that
// may be tiny themselves. Sound runs stay near 1e-6 of the largest weight; a learning rate that is
// off by a hundredth moves them by 5e-3 and more.
Limit run_limit(DType dtype) {
  if (dtype == DType::float64) {
    return layer_limit(dtype);
  }
  return {.of_largest = 1e-4};
}

double spacing(DType dtype, double value) {
  const Format format = format_of(dtype);
  const int exponent = value == 0 || std::isnan(value)
                           ? format.lowest
                           : std::clamp(std::ilogb(value), format.lowest, format.highest);
  return std::ldexp(1.0, exponent - (format.digits - 1));
}

bool is_value_of(DType dtype, double value) {
  return Tensor::full({}, value, dtype).item() == value;
}

void Report::compare(const std::string& what, const Tensor& got, const Limit& limit) {
  const Tensor& expected = case_.tensor(what);
  compare(what, got, expected, limit, [&](std::size_t i) { return index_in(expected.shape(), i); });
}

void Report::compare(const std::string& what, const Tensor& got, const Tensor& expected,
                     const Limit& limit, const Place& place) {
  compared_.insert(what);
  if (!got.defined()) {
    return fail(what + ": there is no result");
  }
  if (got.dtype() != dtype_ || got.shape() != expected.shape()) {
    return fail(sinter::text(what, ": got ", got.dtype(), " ", got.shape(), ", expected ", dtype_,
                             " ", expected.shape()));
  }
  const std::vector<double> results = doubles(got), references = doubles(expected);
  if (references.empty()) {
    return fail(what + ": there is not one value to compare");
  }
  double largest = 0.0;
  for (const double reference : references) {
    if (std::isfinite(reference)) {
      largest = std::max(largest, std::abs(reference));
    }
  }
  std::size_t worst = 0, outside = 0;
  Error worst_error;
  for (std::size_t i = 0; i < references.size(); ++i) {
    const Error error = error_of(dtype_, results[i], references[i], largest, limit);
    outside += error.excess() > 1 ? 1 : 0;
    if (i == 0 || error.excess() > worst_error.excess()) {
      worst = i;
      worst_error = error;
    }
  }
  const double ulp = spacing(dtype_, within_range(dtype_, references[worst]));
  const std::string line =
      what + ": " + roughly(worst_error.size / ulp) + " ulp (" + roughly(worst_error.size) +
      ") at " + place(worst) + ", got " + exactly(results[worst]) + ", expected " +
      exactly(references[worst]) + "; allowed " + roughly(worst_error.allowed) + ", " +
      std::to_string(outside) + " of " + std::to_string(references.size()) + " outside";
  errors_.push_back(line);
  if (outside > 0) {
    fail(line);
  }
}

void Report::fail(const std::string& what) { failures_.push_back(what); }

void Report::require_all_compared() {
  for (const std::string& name : case_.results) {
    if (!compared_.contains(name)) {
      fail(name + ": its check did not compare it");
    }
  }
  if (compared_.empty()) {
    fail("its check compared nothing");
  }
}

}  // namespace golden
