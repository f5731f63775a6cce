// The text form of a model, taken apart: names, arguments and where they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sinter {

/// One argument, "name=value" or "value".
struct LayerArgument {
  std::string name;  ///< empty: positional
  std::string value;
  std::size_t at;
};

/// One "name(arguments)" or "name(layer -> layer)", and where it stands, for messages.
struct LayerCall {
  std::string_view text;
  std::string name;
  std::size_t at;
  std::vector<LayerArgument> arguments;
  std::vector<LayerCall> inner = {};  ///< of a layer that is made of others

  [[noreturn]] void fail(std::size_t position, const std::string& what) const;
  double number(const LayerArgument& argument, const char* expected = "a number") const;
  std::int64_t whole_number(const LayerArgument& argument) const;
  bool truth(const LayerArgument& argument) const;
  /// "256", or "4x7" for more than one number: at most `most` of them, none below `least`.
  std::vector<std::int64_t> sizes(const LayerArgument& argument, int most,
                                  std::int64_t least) const;
};

/// The layers of "linear(784, 256) -> relu -> residual(linear(256, 256) -> relu)", in order. Throws
/// Error that points at the first thing it cannot read.
std::vector<LayerCall> read_model_text(std::string_view text);

}  // namespace sinter
