// The text form of a model: whatever is read says itself again.
#include <cctype>

#include "target.h"
#include <sinter/layers/sequential.h>

using namespace sinter;

namespace {

// Running statistics are made with their layer, so a text may ask for more memory than there is,
// as any program may. More than 64 bits count is refused and stays in.
bool asks_for_much(std::string_view text) {
  std::size_t digits = 0;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      ++digits;
    } else if (digits > 5 && digits < 19) {
      return true;
    } else {
      digits = 0;
    }
  }
  return digits > 5 && digits < 19;
}

}  // namespace

// Else AddressSanitizer ends the program where more memory is asked for than any system has.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view given = fuzz::as_text(data, size);
  if (given.find("batch_norm") != std::string_view::npos && asks_for_much(given)) {
    return 0;
  }
  const auto text = fuzz::unless_refused([&] { return Sequential::parse(given).text(); });
  if (text && !text->empty()) {
    fuzz::promise(Sequential::parse(*text).text() == *text, "text() reads back as itself");
  }
  return 0;
}
