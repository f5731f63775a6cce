#include <utility>

#include <sinter/runtime/backend.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/error.h>
#include <sinter/runtime/event.h>

namespace sinter {

Event::Event(Device device) : device_(device) {
  require_available(device);
  handle_ = backend(device.type).make_event(device.index);
}

Event::~Event() {
  if (handle_ != nullptr) {
    backend(device_.type).release_event(device_.index, handle_);
  }
}

Event::Event(Event&& other) noexcept
    : device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)),
      recorded_(std::exchange(other.recorded_, false)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(recorded_, other.recorded_);
  return *this;
}

void Event::record() {
  check(handle_ != nullptr, "Event::record: the event was moved to another object");
  check(!is_capturing(), "Event::record: no event of ", device_,
        " can be recorded while a graph is captured");
  backend(device_.type).record_event(device_.index, handle_);
  recorded_ = true;
}

void Event::synchronize() const {
  check(recorded_, "Event::synchronize: the event of ", device_,
        " was not recorded; call record() behind the work to wait for");
  check(!is_capturing(), "Event::synchronize: nothing can be waited for on ", device_,
        " while a graph is captured");
  backend(device_.type).synchronize_event(device_.index, handle_);
}

double Event::milliseconds_since(const Event& earlier) const {
  check(device_ == earlier.device_, "Event::milliseconds_since: an event of ", device_,
        " cannot be compared with one of ", earlier.device_);
  earlier.synchronize();
  synchronize();
  return backend(device_.type).milliseconds(device_.index, earlier.handle_, handle_);
}

}  // namespace sinter
