// The arguments of an update as kernels take them.
#pragma once

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/runtime/graph.h>

namespace sinter::cuda {

template <class Constants>
auto update_of(const ops::UpdateArgs<Constants>& args) {
  using Narrow = decltype(math::narrowed(args.constants));
  const Graph* graph = Graph::recording();
  Update<Narrow> update{math::narrowed(args.constants),
                        args.live.defined() ? args.live.template raw<Narrow>() : nullptr,
                        graph != nullptr ? graph->fault().raw<std::int64_t>() : nullptr};
  if (args.skip.found.defined()) {
    update.skip = {args.skip.found.template raw<std::int32_t>(),
                   args.skip.skipped.template raw<std::int64_t>(),
                   args.skip.known.template raw<std::int64_t>(),
                   args.live.numel() / static_cast<std::int64_t>(sizeof(Narrow))};
  }
  return update;
}

}  // namespace sinter::cuda
