// IDX files, plain: a tensor that is read is the bytes behind the header, no more and no fewer.
#include <cstring>

#include "target.h"
#include <sinter/training/idx.h>

using namespace sinter;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::scratch("idx", fuzz::as_text(data, size));
  const bool is_gzip = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;  // another target's
  const auto tensor = fuzz::unless_refused([&] { return read_idx(path); });
  if (tensor && !is_gzip) {
    const auto header = static_cast<std::size_t>(4 + 4 * tensor->rank());
    fuzz::promise(tensor->bytes() == size - header &&
                      std::memcmp(tensor->address(), data + header, size - header) == 0,
                  "the elements are what follows the header");
    for (int rank = 1; rank <= 4; ++rank) {
      const bool read = fuzz::unless_refused([&] { return read_idx(path, rank); }).has_value();
      fuzz::promise(read == (rank == tensor->rank()), "another rank than the one asked for");
    }
  }
  return 0;
}
