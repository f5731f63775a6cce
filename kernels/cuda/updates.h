// The arguments of an update as kernels take them.
#pragma once

#include <sinter/kernels/cuda/kernels.h>
#include <sinter/runtime/graph.h>

namespace sinter::cuda {

template <class Constants>
auto update_of(const ops::UpdateArgs<Constants>& args) {
  using Narrow = decltype(math::narrowed(args.constants));
  const Graph* graph = Graph::recording();
  return Update<Narrow>{math::narrowed(args.constants),
                        args.live.defined() ? args.live.template raw<Narrow>() : nullptr,
                        graph != nullptr ? graph->fault().raw<std::int64_t>() : nullptr};
}

}  // namespace sinter::cuda
