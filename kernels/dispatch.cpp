#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include <sinter/kernels/dispatch.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/log.h>

namespace sinter {
namespace {

std::atomic<FallbackPolicy> policy{FallbackPolicy::warn};
std::mutex counts_mutex;

std::map<std::string, std::int64_t, std::less<>>& counts() {
  static auto& instance = *new std::map<std::string, std::int64_t, std::less<>>;
  return instance;
}

}  // namespace

void set_fallback_policy(FallbackPolicy wanted) { policy = wanted; }

std::int64_t fallback_count() {
  const std::scoped_lock lock(counts_mutex);
  std::int64_t total = 0;
  for (const auto& [op, count] : counts()) {
    total += count;
  }
  return total;
}

std::int64_t fallback_count(std::string_view op) {
  const std::scoped_lock lock(counts_mutex);
  const auto found = counts().find(op);
  return found == counts().end() ? 0 : found->second;
}

namespace detail {

constinit std::atomic<int> op_watches{0};

namespace {
constinit thread_local OpWatch* watch_here = nullptr;
}

OpWatch* watch_of_thread() { return watch_here; }

void set_op_watch(OpWatch* watch) {
  op_watches += (watch != nullptr ? 1 : 0) - (watch_here != nullptr ? 1 : 0);
  watch_here = watch;
}

void CallSite::refuse(Device other) const {
  throw Error(text(op_, ": one tensor is on ", device_, " and another on ", other,
                   "; move the model or the batch with to(device)"));
}

void CallSite::note_fallback() const {
  check(!is_capturing(), op_, ": no kernel for ", device_,
        ", and the CPU cannot stand in while a graph is captured; run this model eagerly");
  check(policy != FallbackPolicy::error, op_, ": no kernel for ", device_,
        ", and the fallback policy is error");
  bool first = false;
  {
    const std::scoped_lock lock(counts_mutex);
    first = counts()[op_]++ == 0;
  }
  if (first && policy == FallbackPolicy::warn) {
    log::warn(text(op_, ": no kernel for ", device_,
                   "; it runs on the CPU, with copies there and back (said once for each op)"));
  }
}

Tensor staged_copy(const Tensor& tensor) {
  if (!tensor.defined()) {
    return {};
  }
  return tensor.detach().to(Device::cpu()).to(staged_dtype(tensor.dtype()));
}

Tensor staged_empty(const Tensor& tensor) {
  return tensor.defined() ? Tensor::empty(tensor.shape(), staged_dtype(tensor.dtype())) : Tensor{};
}

void unstage(const Tensor& staged, Tensor& original) {
  if (original.defined()) {
    original.copy_from(staged.to(original.dtype()));
  }
}

}  // namespace detail
}  // namespace sinter
