// Stands in for this folder where sinter is built without CUDA.
#include <sinter/runtime/backend.h>
#include <sinter/runtime/error.h>

namespace sinter {
namespace {

int none() { return 0; }
std::string why() { return "sinter was built without CUDA"; }

// No tensor can be made on a device that is not there, so the rest is never reached.
[[noreturn]] void refuse() { throw Error("sinter was built without CUDA"); }
void* allocate(int, std::size_t) { refuse(); }
void release(int, void*) noexcept {}
void copy(int, void*, const void*, std::size_t) { refuse(); }
void fill(int, void*, const void*, std::size_t, std::size_t) { refuse(); }
void synchronize(int) { refuse(); }

}  // namespace

const Backend cuda_backend{
    .count = none,
    .absent_because = why,
    .has_kernels = false,
    .allocate = allocate,
    .release = release,
    .copy_from_host = copy,
    .copy_to_host = copy,
    .copy = copy,
    .fill = fill,
    .synchronize = synchronize,
};

}  // namespace sinter
