// Writes the text form of a layer, "leaky_relu(negative_slope=0.1)".
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace sinter {

/// The shortest text from which the same double is read.
inline std::string shortest(double value) {
  char buffer[32];
  const auto [end, failure] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

class TextForm {
 public:
  explicit TextForm(std::string_view name) : out_(name) {}
  TextForm& value(std::string_view value) {
    out_ += (first_ ? "(" : ", ") + std::string(value);
    first_ = false;
    return *this;
  }
  /// A number, a truth, or what says itself how it is written.
  template <class T>
  TextForm& argument(std::string_view name, const T& value) {
    std::string written;
    if constexpr (std::same_as<T, bool>) {
      written = value ? "true" : "false";
    } else if constexpr (std::integral<T>) {
      written = std::to_string(value);
    } else if constexpr (std::floating_point<T>) {
      written = shortest(static_cast<double>(value));
    } else {
      written = value.str();
    }
    return this->value(std::string(name) + "=" + written);
  }
  template <class T>
  TextForm& argument_unless(std::string_view name, const T& value,
                            const std::type_identity_t<T>& usual) {
    return value == usual ? *this : argument(name, value);
  }
  std::string str() const { return first_ ? out_ : out_ + ")"; }

 private:
  std::string out_;
  bool first_ = true;
};

/// The parameters of an activation that differ from their defaults.
template <class A>
void write_parameters(TextForm& form, const A& act) {
  std::apply(
      [&](const auto&... field) {
        (form.argument_unless(field.name, act.*field.member, A{}.*field.member), ...);
      },
      A::fields);
}

}  // namespace sinter
