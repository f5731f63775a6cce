// Mistakes that the compiler must catch: each line of must_not_compile.cpp that says so is refused,
// and nothing else in the file is.
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
    const bool failed = wrong.output.find(snippet + ":" + std::to_string(number) + ":") !=
                            std::string::npos &&
                        wrong.output.find("error: ") != std::string::npos;
    CHECK_MESSAGE(failed == must_fail, number, ": ", line);
    marked += must_fail ? 1 : 0;
  }
  CHECK(marked >= 8);
}
