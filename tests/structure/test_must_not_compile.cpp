// Mistakes that the compiler must catch: each line of must_not_compile.cpp that says so is refused,
// and nothing else in the file is.
#include <cctype>
#include <cstddef>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "shell.h"

namespace {

const std::string snippet = SINTER_SOURCE_DIR "/tests/structure/must_not_compile.cpp";

structure::Outcome compile(const std::string& flags) {
  return structure::run("LC_ALL=C " + structure::quoted(SINTER_CXX) +
                        " -std=c++20 -fsyntax-only -I " + structure::quoted(SINTER_INCLUDE_DIR) +
                        " " + flags + " " + structure::quoted(snippet));
}

// Whether an error is at this line, or in a template that this line instantiates: the compiler
// names line and column ("in file included from" names a line only).
bool blames(const std::string& output, int line) {
  const std::string place = snippet + ":" + std::to_string(line) + ":";
  const std::size_t at = output.find(place);
  return at != std::string::npos && at + place.size() < output.size() &&
         std::isdigit(static_cast<unsigned char>(output[at + place.size()])) != 0;
}

}  // namespace

TEST_CASE("named fields are demanded where a number could be mistaken") {
  const structure::Outcome right = compile("");
  INFO(right.output);
  REQUIRE(right.status == 0);

  const structure::Outcome wrong = compile("-DSINTER_MISTAKES");
  CHECK(wrong.status != 0);
  std::ifstream file(snippet);
  std::string line;
  int marked = 0;
  for (int number = 1; std::getline(file, line); ++number) {
    const bool must_fail = line.ends_with("// must not compile");
    CHECK_MESSAGE(blames(wrong.output, number) == must_fail, number, ": ", line, "\n",
                  wrong.output);
    marked += must_fail ? 1 : 0;
  }
  CHECK(marked >= 8);
}
