// gzip files with IDX in them. An odd first byte: the rest is packed here, as two members, and must
// read as it does plain. An even one: the rest is a gzip file as it is, and what is read must be
// what zlib's own reader unpacks.
#include <algorithm>
#include <cstring>

#include <zlib.h>

#include "../training/data_files.h"
#include "target.h"
#include <sinter/training/idx.h>

using namespace sinter;

namespace {

std::optional<Tensor> read(const char* name, std::string_view bytes) {
  const auto path = fuzz::scratch(name, bytes);
  return fuzz::unless_refused([&] { return read_idx(path); });
}

bool same(const std::optional<Tensor>& a, const std::optional<Tensor>& b) {
  if (!a || !b) {
    return a.has_value() == b.has_value();
  }
  return a->shape() == b->shape() && std::memcmp(a->address(), b->address(), a->bytes()) == 0;
}

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string packed(std::string_view bytes) {
  const testing::Bytes out = testing::gzip(testing::bytes_of(bytes));
  return {out.begin(), out.end()};
}

// What zlib's reader of files makes of it.
std::string unpacked(const std::filesystem::path& path) {
  std::string out;
  const gzFile file = gzopen(path.c_str(), "rb");
  char buffer[4096];
  for (int got = 0; (got = gzread(file, buffer, sizeof buffer)) > 0;) {
    out.append(buffer, static_cast<std::size_t>(got));
  }
  gzclose(file);
  return out;
}

void check_packing(std::string_view plain, std::size_t cut) {
  if (is_gzip(plain)) {
    return;
  }
  cut = std::min(cut, plain.size());
  const auto members = packed(plain.substr(0, cut)) + packed(plain.substr(cut));
  fuzz::promise(same(read("packed", members), read("plain", plain)), "gzip changes nothing");
}

void check_unpacking(std::string_view bytes) {
  const auto tensor = read("packed", bytes);
  if (tensor && is_gzip(bytes)) {
    const std::string plain = unpacked(fuzz::scratch("packed"));
    fuzz::promise(same(read("plain", plain), tensor), "zlib unpacks the same");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view rest = fuzz::as_text(data + 1, size - 1);
  data[0] % 2 == 1 ? check_packing(rest, data[0] / 2) : check_unpacking(rest);
  return 0;
}
