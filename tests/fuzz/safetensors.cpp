// safetensors files: what is read can be written, and reads back the same.
#include <cstring>

#include "target.h"
#include <sinter/layers/safetensors.h>

using namespace sinter;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.bytes() == 0 || std::memcmp(a.address(), b.address(), a.bytes()) == 0);
}

bool same(const TensorFile& a, const TensorFile& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) {
    return false;
  }
  for (const auto& [name, tensor] : a.tensors) {
    const auto found = b.tensors.find(name);
    if (found == b.tensors.end() || !same(tensor, found->second)) {
      return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::scratch("read", fuzz::as_text(data, size));
  if (const auto file = fuzz::unless_refused([&] { return read_safetensors(path); })) {
    const auto again = fuzz::scratch("written");
    write_safetensors(again, *file);
    fuzz::promise(same(read_safetensors(again), *file), "what is written reads back the same");
  }
  return 0;
}
