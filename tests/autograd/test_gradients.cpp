// Every differentiable function against finite differences in float64, and the demand that each has
// such a check.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include <doctest/doctest.h>

#include "gradient_cases.h"
#include "values.h"
#include <sinter/autograd/functions.h>
#include <sinter/autograd/gradcheck.h>

namespace sinter {
namespace {

using namespace testing;

GradientCases all_cases() {
  GradientCases all;
  for (const auto& part : {activation_cases, matrix_cases, arithmetic_cases, loss_cases, row_cases,
                           sequence_cases, image_cases, batch_norm_cases}) {
    std::ranges::move(part(), std::back_inserter(all));
  }
  return all;
}

void check_all(const GradientCases& cases) {
  for (const GradientCase& one : cases) {
    CAPTURE(one.function);
    CAPTURE(one.name);
    const GradCheckReport report = check_gradient(one.f, one.inputs);
    CHECK_MESSAGE(report.passed, report.worst);
    CHECK(report.at_kinks == 0);  // none of the inputs lies at one, so none may be excused
    std::int64_t elements = 0;
    for (const Tensor& input : one.inputs) {
      elements += input.numel();
    }
    CHECK(report.checked == elements);
  }
}

TEST_CASE("gradients of activations and dropout") { check_all(activation_cases()); }
TEST_CASE("gradients of matrix products") { check_all(matrix_cases()); }
TEST_CASE("gradients of arithmetic, sums and views") { check_all(arithmetic_cases()); }
TEST_CASE("gradients of losses") { check_all(loss_cases()); }
TEST_CASE("gradients of functions over rows") { check_all(row_cases()); }
TEST_CASE("gradients of functions over sequences") { check_all(sequence_cases()); }

TEST_CASE("gradients of convolutions and pools") { check_all(image_cases()); }

TEST_CASE("gradients of batch norms") { check_all(batch_norm_cases()); }

// "const math::AnyActivation& act, bool x = true" to "math::AnyActivation, bool".
std::string types_of(std::string parameters) {
  static const std::regex unused(R"(const |&|\s*=[^,]*)");
  static const std::regex name(R"(\s+\w+(,|$))");
  static const std::regex space(R"(\s+)");
  parameters = std::regex_replace(parameters, unused, "");
  return std::regex_replace(std::regex_replace(parameters, name, "$1"), space, " ");
}

// The functions that autograd/functions.h declares before its line "Not differentiable".
std::vector<std::string> declared_functions(const std::string& header) {
  const std::string text =
      std::regex_replace(header.substr(0, header.find("// Not differentiable.")),
                         std::regex(R"(//[^\n]*|#define(.*\\\n)*.*)"), "");
  const std::regex declaration(R"((?:^|\n)(?:inline )?Tensor&?\s+(\w+|operator\S+?)\(([^)]*)\))");
  std::vector<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
    out.push_back((*at)[1].str() + "(" + types_of((*at)[2]) + ")");
  }
  return out;
}

TEST_CASE("the reader of declarations reads them") {
  const std::string header =
      "/// Tensor comment(const Tensor& x);\n"
      "Tensor one(const Tensor& x, const math::AnyActivation& act,\n"
      "           const Options& o = {}, bool flag = true);\n"
      "#define MACRO(T, f)  \\\n  inline Tensor f(const Tensor& x, const T& a = {}) { \\\n"
      "    return x; }\n"
      "Tensor& operator+=(Tensor& y, double x);\n"
      "Tensor operator-(const Tensor& a);\n"
      "void other(int x);\n"
      "// Not differentiable. ----\nTensor behind(const Tensor& x);\n";
  CHECK(declared_functions(header) ==
        std::vector<std::string>{"one(Tensor, math::AnyActivation, Options, bool)",
                                 "operator+=(Tensor, double)", "operator-(Tensor)"});
}

TEST_CASE("every differentiable function has a gradient check") {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "../../autograd/functions.h";
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path.string());
  const std::string header{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> wanted = declared_functions(header);
  CHECK(wanted.size() >= 25);
  wanted.push_back("Tensor::reshape");
  math::for_each_activation([&]<class A>() { wanted.emplace_back(A::name); });
  std::set<std::string> checked;
  for (const GradientCase& one : all_cases()) {
    checked.insert(one.function);
  }
  for (const std::string& function : wanted) {
    CHECK_MESSAGE(checked.erase(function) == 1, "no gradient check for ", function);
  }
  for (const std::string& leftover : checked) {
    FAIL_CHECK("a gradient check for ", leftover, ", which autograd/functions.h does not declare");
  }
}

TEST_CASE("what is not differentiable says so or is no part of the graph") {
  const Tensor x = leaf({2, 3});
  const Tape tape;
  CHECK(argmax(x).slot().tape == 0);
  CHECK(tape.size() == 0);
}

}  // namespace
}  // namespace sinter
