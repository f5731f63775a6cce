// The CPU kernels are compiled once for each instruction set and linked into one program. Of weak
// symbols of the same name the linker keeps one, for everybody: if it is the AVX-512 one, a
// processor without AVX-512 stops there. So no copy may define a weak symbol that is not its own.
#include <cstddef>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "shell.h"

namespace {

// A pointer to the C++ runtime's personality routine: data, the same in every object.
constexpr std::string_view harmless = "DW.ref.__gxx_personality_v0";

// Whether a mangled name has sinter::cpu::PATH in it, and so is no other copy's.
bool belongs_to(const std::string& name, const std::string& path) {
  return name.find("6sinter3cpu" + std::to_string(path.size()) + path) != std::string::npos;
}

// The weak symbols that nm lists as defined (W, V: weak; u: unique) and that are not the copy's
// own.
std::string foreign_weak_symbols(const std::string& listing, const std::string& path) {
  std::istringstream lines(listing);
  std::string line;
  std::string found;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string address;
    std::string kind;
    std::string name;
    words >> address >> kind >> name;
    const bool weak = kind == "W" || kind == "V" || kind == "u";
    if (weak && name != harmless && !belongs_to(name, path)) {
      found += name + " ";
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a foreign weak symbol is noticed") {
  CHECK(foreign_weak_symbols("00 W _ZSt3maxIfERKT_S2_S2_\n00 T main\n", "avx2") ==
        "_ZSt3maxIfERKT_S2_S2_ ");
  CHECK(foreign_weak_symbols("00 V _ZN6sinter3cpu6avx5123addEv\n", "avx2") != "");
  CHECK(foreign_weak_symbols("00 u _ZN6sinter3cpu4avx23addEv\n", "avx512") != "");
  CHECK(foreign_weak_symbols("00 W _ZN6sinter3cpu4avx23addEv\n   U _ZSt3maxv\n", "avx2") == "");
}

TEST_CASE("no instruction-set copy defines a weak symbol of another's name") {
  if (structure::run(structure::quoted(SINTER_NM) + " --version").status != 0) {
    std::cout << "SKIPPED (no nm)" << std::endl;
    return;
  }
  std::ifstream objects(SINTER_ISA_OBJECTS);
  std::string line;
  int checked = 0;
  while (std::getline(objects, line)) {
    const std::size_t bar = line.find('|');
    if (bar == std::string::npos) {
      continue;
    }
    const std::string path = line.substr(0, bar);
    const std::string object = line.substr(bar + 1);
    const structure::Outcome listing = structure::run(
        structure::quoted(SINTER_NM) + " --defined-only " + structure::quoted(object));
    CHECK_MESSAGE(listing.status == 0, listing.output);
    CHECK_MESSAGE(listing.output.find("sinter") != std::string::npos, object);
    const std::string found = foreign_weak_symbols(listing.output, path);
    CHECK_MESSAGE(found.empty(), object, ": ", found);
    ++checked;
  }
  if (checked == 0) {
    std::cout << "SKIPPED (this processor type has one copy only)" << std::endl;
  }
}
