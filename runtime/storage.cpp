#include <cassert>
#include <utility>

#include <sinter/runtime/pool.h>
#include <sinter/runtime/storage.h>

namespace sinter {

Storage::Storage(Device device, std::size_t bytes) : device_(device), bytes_(bytes) {
  require_available(device);
  if (bytes > 0) {
    data_ = static_cast<std::byte*>(pool_allocate(device, bytes));
  }
}

Storage::Storage(std::shared_ptr<Storage> whole, std::size_t offset, std::size_t bytes)
    : device_(whole->device()),
      data_(whole->data() + offset),
      bytes_(bytes),
      whole_(std::move(whole)) {
  assert(offset + bytes <= whole_->bytes());
}

Storage::~Storage() {
  if (!whole_ && data_ != nullptr) {
    pool_release(device_, data_, bytes_);
  }
}

}  // namespace sinter
