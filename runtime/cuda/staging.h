// Copies between a device and host memory that the device cannot reach: in pieces through two
// pinned buffers, so that the host copies one piece while the other is on its way.
#pragma once

#include <cstddef>

namespace sinter::cuda {

/// Returns when `from` has been read; the device has the bytes before any later work on its stream.
void copy_in(int index, void* to, const void* from, std::size_t bytes);
/// Returns when `to` has been written.
void copy_out(int index, void* to, const void* from, std::size_t bytes);

}  // namespace sinter::cuda
