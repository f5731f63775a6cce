// The CUDA device's part of Graph: the functions of Backend that record and replay.
#pragma once

#include <cstdint>

namespace sinter::cuda {

void begin_capture(int index);
void* end_capture(int index, bool keep);
void replay_graph(int index, void* graph);
void release_graph(int index, void* graph) noexcept;
std::int64_t kernels_of_graph(void* graph);
void begin_branch(int index);
void end_branch(int index);
void join_branch(int index);

}  // namespace sinter::cuda
