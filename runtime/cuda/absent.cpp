// Stands in for this folder where sinter is built without CUDA.
#include <sinter/runtime/backend.h>
#include <sinter/runtime/error.h>

namespace sinter {
namespace {

int none() { return 0; }
std::string why() { return "sinter was built without CUDA"; }

// No tensor can be made on a device that is not there, so the rest is never reached.
[[noreturn]] void refuse() { throw Error("sinter was built without CUDA"); }
std::string name(int) { refuse(); }
std::string versions() { refuse(); }
Backend::Memory memory(int) { refuse(); }
void* allocate(int, std::size_t) { refuse(); }
void release(int, void*) noexcept {}
void copy(int, void*, const void*, std::size_t) { refuse(); }
void fill(int, void*, const void*, std::size_t, std::size_t) { refuse(); }
void synchronize(int) { refuse(); }
void* make_event(int) { refuse(); }
void use_event(int, void*) { refuse(); }
double milliseconds(int, void*, void*) { refuse(); }

}  // namespace

const Backend cuda_backend{
    .count = none,
    .absent_because = why,
    .name = name,
    .versions = versions,
    .memory = memory,
    .allocate = allocate,
    .release = release,
    .copy_from_host = copy,
    .copy_to_host = copy,
    .copy = copy,
    .fill = fill,
    .synchronize = synchronize,
    .make_event = make_event,
    .release_event = release,
    .record_event = use_event,
    .synchronize_event = use_event,
    .milliseconds = milliseconds,
    .begin_capture = nullptr,
    .end_capture = nullptr,
    .replay_graph = nullptr,
    .release_graph = nullptr,
    .kernels_of_graph = nullptr,
    .begin_branch = nullptr,
    .end_branch = nullptr,
    .join_branch = nullptr,
};

}  // namespace sinter
