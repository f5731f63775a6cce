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
    return (update.fault != nullptr && *update.fault != no_position) ||
           (update.skip.found != nullptr && *update.skip.found != 0);
  }
  __device__ Body begun() const {
    Body body;
    body.update = {update.live != nullptr ? update.live[choice()] : update.constants};
    return body;
  }

 private:
  __device__ std::int64_t choice() const {
    const auto& skip = update.skip;
    return skip.found != nullptr
               ? max(std::int64_t{0}, min(*skip.skipped - *skip.known, skip.choices - 1))
               : 0;
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
