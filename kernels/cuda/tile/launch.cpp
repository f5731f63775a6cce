#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <sinter/kernels/cuda/tile/launch.h>
#include <sinter/runtime/cuda/presence.h>

namespace sinter::cuda::tile {
namespace {

constexpr std::size_t shared_without_asking = 48 << 10;

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

int compiled_for(int device) {
  return architecture_for(100 * attribute(device, cudaDevAttrComputeCapabilityMajor) +
                          10 * attribute(device, cudaDevAttrComputeCapabilityMinor));
}

}  // namespace

Range::Range(const Tensor& tensor)
    : Range(tensor.defined() ? tensor.address() : nullptr,
            tensor.defined() ? static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype())
                             : 0) {}

struct Launch::Device {
  std::mutex mutex;
  int multiprocessors = 0;
  int architecture = 0;  // that the kernels it runs were compiled for
  /// When the last tile kernel was launched, and what it writes.
  std::uint64_t last_use = 0;
  std::vector<Range> written;
  std::vector<Range> to_be_written;
  std::set<const void*> with_much_shared;
};

Launch::Device& Launch::of(int index) {
  static std::mutex mutex;
  static auto& devices = *new std::map<int, Device>;
  const std::scoped_lock lock(mutex);
  Device& device = devices[index];
  if (device.multiprocessors == 0) {
    device.architecture = compiled_for(index);
    device.multiprocessors = attribute(index, cudaDevAttrMultiProcessorCount);
  }
  return device;
}

// After a kernel that was launched in the ordinary way a tile kernel is, too, and nothing is
// settled.
Launch::Launch(int device) : index_(device), device_(of(device)), lock_(device_.mutex) {
  follows_a_tile_ = device_.last_use != 0 && uses(device) == device_.last_use;
  device_.to_be_written.clear();
}

Launch::~Launch() = default;

bool Launch::settled(const Range& range) const {
  return follows_a_tile_ && std::ranges::none_of(device_.written, [&](const Range& other) {
           return range.begin < other.end && other.begin < range.end;
         });
}

void Launch::writes(const Range& range) {
  if (range.begin != range.end) {
    device_.to_be_written.push_back(range);
  }
}

int Launch::multiprocessors() const { return device_.multiprocessors; }

bool Launch::is_new(const void* kernel, std::size_t shared_bytes) const {
  return shared_bytes > shared_without_asking && device_.with_much_shared.insert(kernel).second;
}

cudaLaunchConfig_t Launch::begin(dim3 blocks, int threads, std::size_t shared_bytes,
                                 cudaLaunchAttribute& attribute) {
  cudaLaunchConfig_t config{};
  // Counted by hand: if another thread comes between, the number is nobody's.
  this_use_ = uses(index_) + 1;
  config.stream = use(index_);
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  // After anything else there may be other work to wait for than the kernel before, which a graph
  // cannot tell apart.
  config.numAttrs = device_.architecture >= 900 && follows_a_tile_ ? 1 : 0;
  device_.last_use = 0;
  return config;
}

void Launch::end() {
  device_.last_use = this_use_;
  std::swap(device_.written, device_.to_be_written);
}

bool has_tensor_cores(int device) {
  static std::mutex mutex;
  static auto& known = *new std::map<int, bool>;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = known.try_emplace(device, false);
  if (is_new) {
    found->second = compiled_for(device) >= 800;
  }
  return found->second;
}

}  // namespace sinter::cuda::tile
