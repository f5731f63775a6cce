// Whether this thread is recording a graph of device work. While it is, nothing may leave the
// device: a copy to the host or a fallback to the CPU could not be replayed.
#pragma once

namespace sinter {

bool is_capturing();

/// Marks the thread as capturing for as long as it lives; scopes nest.
class CaptureScope {
 public:
  CaptureScope();
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
};

}  // namespace sinter
