#include "table.h"

#include <cstdio>
#include <functional>
#include <iterator>
#include <set>

#include "../json_file.h"
#include <sinter/runtime/build_info.h>

namespace bench {
namespace {

using sinter::DType;
using sinter::text;

/// The values that a field takes, in the order of their first appearance.
template <class Field>
auto distinct(const std::vector<Result>& results, Field Result::*field) {
  std::vector<Field> found;
  for (const Result& result : results) {
    if (std::ranges::find(found, result.*field) == found.end()) {
      found.push_back(result.*field);
    }
  }
  return found;
}

std::string size_name(std::int64_t n) {
  int power = 0;
  while ((std::int64_t{1} << power) < n) {
    ++power;
  }
  return std::int64_t{1} << power == n ? text("2^", power) : text(n);
}

std::string percent(double value) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%.1f", value);
  return digits;
}

const Result* find(const std::vector<Result>& results, const std::string& name, DType dtype,
                   std::int64_t n, const std::string& direction) {
  const auto found = std::ranges::find_if(results, [&](const Result& r) {
    return r.name == name && r.dtype == dtype && r.n == n && r.direction == direction;
  });
  return found == results.end() ? nullptr : &*found;
}

using Directions = std::vector<std::string>;

std::string cell(const std::vector<Result>& results, const std::string& name, DType dtype,
                 std::int64_t n, const Directions& directions) {
  std::string joined;
  for (const std::string& direction : directions) {
    const Result* result = find(results, name, dtype, n, direction);
    joined += (joined.empty() ? "" : "/") +
              (result == nullptr ? std::string("-") : percent(result->percent_of_copy()));
  }
  return joined;
}

/// One line an activation; a column for each size, large ones first, and type.
void print_rows(std::vector<Result> results, const Directions& directions) {
  std::ranges::stable_sort(results, std::greater{}, &Result::n);
  const auto sizes = distinct(results, &Result::n);
  const auto dtypes = distinct(results, &Result::dtype);
  std::printf("%-12s", "");
  for (const std::int64_t n : sizes) {
    for (const DType dtype : dtypes) {
      std::printf(" %13s", text(size_name(n), " ", dtype).c_str());
    }
  }
  std::printf("\n");
  for (const std::string& name : distinct(results, &Result::name)) {
    std::printf("%-12s", name.c_str());
    for (const std::int64_t n : sizes) {
      for (const DType dtype : dtypes) {
        std::printf(" %13s", cell(results, name, dtype, n, directions).c_str());
      }
    }
    std::printf("\n");
  }
}

void print_smallest(const std::vector<Result>& results) {
  std::string line = "smallest:";
  for (const std::int64_t n : distinct(results, &Result::n)) {
    const Result* smallest = nullptr;
    for (const Result& result : results) {
      if (result.n == n &&
          (smallest == nullptr || result.percent_of_copy() < smallest->percent_of_copy())) {
        smallest = &result;
      }
    }
    line += text("  ", size_name(n), " ", percent(smallest->percent_of_copy()), " % (",
                 smallest->name, " ", smallest->dtype, " ", smallest->direction, ")");
  }
  std::printf("%s\n", line.c_str());
}

std::vector<Result> those(const std::vector<Result>& results,
                          const std::function<bool(const Result&)>& wanted) {
  std::vector<Result> found;
  std::ranges::copy_if(results, std::back_inserter(found), wanted);
  return found;
}

}  // namespace

void print_table(const std::vector<Result>& results) {
  for (const double p : distinct(results, &Result::p)) {
    const auto tape =
        those(results, [p](const Result& r) { return r.p == p && r.direction == "tape"; });
    const auto ops =
        those(results, [p](const Result& r) { return r.p == p && r.direction != "tape"; });
    if (!tape.empty()) {
      std::printf("\n%% of copy, forward and backward through a tape, dropout %g\n", p);
      print_rows(tape, {"tape"});
    }
    if (!ops.empty()) {
      std::printf("\n%% of copy, forward/backward, dropout %g\n", p);
      print_rows(ops, {"forward", "backward"});
      print_smallest(ops);
    }
  }
}

void write_json(const std::filesystem::path& path, const std::string& device, int rounds,
                const std::vector<Result>& results) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Result& r : results) {
    rows.push_back({{"system", "sinter"},
                    {"name", r.name},
                    {"dtype", sinter::name_of(r.dtype)},
                    {"direction", r.direction},
                    {"p", r.p},
                    {"n", r.n},
                    {"us", r.us},
                    {"bytes", r.bytes()},
                    {"copy_us", r.copy_us},
                    {"percent_of_copy", r.percent_of_copy()}});
  }
  write_json_file(path, {{"device", device},
                         {"versions", {{"sinter", sinter::build_info()}}},
                         {"date", today()},
                         {"rounds", rounds},
                         {"rows", rows}});
}

}  // namespace bench
