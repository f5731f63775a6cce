// Memory for packed operands. Compiled once, unlike the kernels that use it.
#include <cstdlib>

#include <sinter/kernels/cpu/kernels.h>
#include <sinter/runtime/error.h>

namespace sinter::cpu {
namespace {

class Room {
 public:
  Room() = default;
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room() { std::free(memory_); }

  void* get(std::int64_t bytes) {
    if (bytes > bytes_) {
      std::free(memory_);
      bytes_ = 0;
      constexpr std::int64_t line = 64;
      const std::int64_t rounded = (bytes + line - 1) / line * line;
      memory_ = std::aligned_alloc(line, static_cast<std::size_t>(rounded));
      check(memory_ != nullptr, "cpu out of memory: asked for ", bytes,
            " bytes to pack a matrix product");
      bytes_ = rounded;
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace

void* packing_room(std::int64_t bytes) {
  // A packed operand is read again at once, and pages that the system hands out anew cost more
  // than small products do.
  thread_local Room room;
  return room.get(bytes);
}

}  // namespace sinter::cpu
