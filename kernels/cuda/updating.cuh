// What the passes of optimizers have in common.
#pragma once

#include <sinter/kernels/cuda/faults.cuh>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/pass.cuh>

namespace sinter::cuda {

/// What each update of a graph finds out when it begins: its constants, and whether to do anything.
template <class Body, class Constants>
struct Updating : Anywhere {
  Update<Constants> update;

  __device__ bool is_idle() const {
    return update.fault != nullptr && *update.fault != no_position;
  }
  __device__ Body begun() const {
    Body body;
    body.update = {update.live != nullptr ? *update.live : update.constants};
    return body;
  }
};

/// The body of a pass with this update.
template <class Body, class Constants>
Body body_of(const Update<Constants>& update) {
  Body made;
  made.update = update;
  return made;
}

}  // namespace sinter::cuda
