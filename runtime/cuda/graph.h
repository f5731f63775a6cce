// The CUDA device's part of Graph: the functions of Backend that record and replay.
#pragma once

namespace sinter::cuda {

void begin_capture(int index);
void* end_capture(int index, bool keep);
void replay_graph(int index, void* graph);
void release_graph(int index, void* graph) noexcept;

}  // namespace sinter::cuda
