#include "../profile.h"

#include <algorithm>
#include <cstdlib>
#include <cupti.h>
#include <cxxabi.h>
#include <functional>
#include <map>
#include <memory>

#include <sinter/runtime/error.h>

namespace bench {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

void check(CUptiResult result, const char* call) {
  if (result != CUPTI_SUCCESS) {
    const char* why = nullptr;
    cuptiGetResultString(result, &why);
    throw sinter::Error(sinter::text(call, " failed: ", why == nullptr ? "unknown error" : why));
  }
}

std::string demangled(const char* name) {
  if (name == nullptr) {
    return "?";
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

/// What has been seen since clear(). CUPTI hands buffers over on the thread that flushes, or one of
/// its own while that waits.
class Seen {
 public:
  void clear() { *this = {}; }

  template <class Activity>
  void add(const std::string& name, const Activity& activity) {
    Kernel& kernel = kernels_[name];
    kernel.name = name;
    ++kernel.count;
    kernel.us += 1e-3 * static_cast<double>(activity.end - activity.start);
    first_ = std::min<std::uint64_t>(first_, activity.start);
    last_ = std::max<std::uint64_t>(last_, activity.end);
  }

  Profile profile() const {
    Profile out;
    for (const auto& [name, kernel] : kernels_) {
      out.kernels.push_back(kernel);
    }
    std::ranges::stable_sort(out.kernels, std::greater{}, &Kernel::us);
    out.us = out.kernels.empty() ? 0 : 1e-3 * static_cast<double>(last_ - first_);
    return out;
  }

 private:
  std::map<std::string, Kernel> kernels_;
  std::uint64_t first_ = UINT64_MAX;
  std::uint64_t last_ = 0;
};

Seen& seen() {
  static Seen all;
  return all;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::malloc(buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    // Newer versions of a record only append to older ones; these are what CUDA 12 and 13 have.
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      seen().add("copy", *reinterpret_cast<const CUpti_ActivityMemcpy5*>(record));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      seen().add("set", *reinterpret_cast<const CUpti_ActivityMemset4*>(record));
    } else {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      seen().add(demangled(kernel.name), kernel);
    }
  }
  std::free(buffer);
}

}  // namespace

Profile profile_kernels(const std::function<void()>& prepare, const std::function<void()>& work) {
  check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
  // Before any graph is made: those made earlier run unseen. Without
  // CUPTI_ACTIVITY_KIND_GRAPH_TRACE each node of a graph is a record of its own.
  for (const CUpti_ActivityKind kind : kinds) {
    check(cuptiActivityEnable(kind), "cuptiActivityEnable");
  }
  prepare();
  check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  seen().clear();
  work();
  check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  for (const CUpti_ActivityKind kind : kinds) {
    check(cuptiActivityDisable(kind), "cuptiActivityDisable");
  }
  return seen().profile();
}

}  // namespace bench
