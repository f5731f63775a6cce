// The main function of every test program. Says first what is being tested and on what: a run
// without a GPU must not look like one with.
#define DOCTEST_CONFIG_IMPLEMENT
#include <iostream>

#include <doctest/doctest.h>

#include <sinter/runtime/build_info.h>

int main(int argc, char** argv) {
  std::cout << sinter::build_info() << std::endl;
  return doctest::Context(argc, argv).run();
}
