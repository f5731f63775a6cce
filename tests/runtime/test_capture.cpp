#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include <sinter/runtime/capture.h>

namespace sinter {
namespace {

TEST_CASE("capturing lasts as long as the outermost scope") {
  CHECK_FALSE(is_capturing());
  {
    const CaptureScope outer;
    CHECK(is_capturing());
    {
      const CaptureScope inner;
      CHECK(is_capturing());
    }
    CHECK(is_capturing());
  }
  CHECK_FALSE(is_capturing());
}

TEST_CASE("an exception ends a scope") {
  try {
    const CaptureScope scope;
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  CHECK_FALSE(is_capturing());
}

TEST_CASE("a thread captures for itself alone") {
  const CaptureScope scope;
  bool other = true;
  std::thread([&other] { other = is_capturing(); }).join();
  CHECK_FALSE(other);
  CHECK(is_capturing());
}

}  // namespace
}  // namespace sinter
