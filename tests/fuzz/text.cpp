// The text form of a model: whatever is read says itself again.
#include "target.h"
#include <sinter/layers/sequential.h>

using namespace sinter;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view given = fuzz::as_text(data, size);
  const auto text = fuzz::unless_refused([&] { return Sequential::parse(given).text(); });
  if (text && !text->empty()) {
    fuzz::promise(Sequential::parse(*text).text() == *text, "text() reads back as itself");
  }
  return 0;
}
