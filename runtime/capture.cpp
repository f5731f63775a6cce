#include <sinter/runtime/capture.h>

namespace sinter {
namespace {

thread_local int depth = 0;

}  // namespace

bool is_capturing() { return depth > 0; }
CaptureScope::CaptureScope() { ++depth; }
CaptureScope::~CaptureScope() { --depth; }

}  // namespace sinter
