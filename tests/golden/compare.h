// The comparison of a result with its reference, and how far they may be apart.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "golden_file.h"
#include <sinter/runtime/dtype.h>
#include <sinter/runtime/tensor.h>

namespace golden {

/// What is allowed is the sum of all four.
struct Limit {
  double ulps = 0.0;        ///< in units of the storage type's spacing at the reference
  double relative = 0.0;    ///< times the reference
  double of_largest = 0.0;  ///< times the largest magnitude of the reference tensor
  double absolute = 0.0;
};

/// An activation's value, and a derivative taken from the input.
Limit activation_limit(sinter::DType dtype);
/// A derivative taken from the stored output.
Limit derivative_from_output_limit(sinter::DType dtype);
/// A layer, a loss or an optimizer, forward and backward.
Limit layer_limit(sinter::DType dtype);
/// What a whole training run leaves.
Limit run_limit(sinter::DType dtype);

/// From `value` to the next one of that type away from 0; in the tails that of the denormals.
double spacing(sinter::DType dtype, double value);

/// Whether the type holds the value exactly.
bool is_value_of(sinter::DType dtype, double value);

/// What came out of one case.
class Report {
 public:
  Report(const Case& c, sinter::DType dtype) : case_(c), dtype_(dtype) {}

  /// Names element i to a reader, "x = -3.5".
  using Place = std::function<std::string(std::size_t i)>;

  /// Compares with the case's own tensor of that name.
  void compare(const std::string& what, const sinter::Tensor& got, const Limit& limit);
  void compare(const std::string& what, const sinter::Tensor& got, const sinter::Tensor& expected,
               const Limit& limit, const Place& place);
  /// Notes inputs that the type does not hold and that no one can therefore compare.
  void leave_out(std::size_t inputs, std::size_t of) {
    left_out_ += inputs;
    inputs_ += of;
  }
  void fail(const std::string& what);
  /// Fails the case if one of its results was not compared.
  void require_all_compared();

  bool failed() const { return !failures_.empty(); }
  const std::vector<std::string>& failures() const { return failures_; }
  /// The largest error of each comparison, failed or not.
  const std::vector<std::string>& errors() const { return errors_; }
  std::size_t left_out() const { return left_out_; }
  std::size_t inputs() const { return inputs_; }

 private:
  const Case& case_;
  sinter::DType dtype_;
  std::set<std::string> compared_;
  std::vector<std::string> failures_;
  std::vector<std::string> errors_;
  std::size_t left_out_ = 0;
  std::size_t inputs_ = 0;
};

}  // namespace golden
