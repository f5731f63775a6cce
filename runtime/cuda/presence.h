// Which GPUs there are, or why there is none. Looking never throws and makes no context on a GPU.
#pragma once

#include <string>
#include <vector>

namespace sinter::cuda {

struct Presence {
  std::vector<std::string> names;  ///< of the usable devices, by index
  std::string absent_because;      ///< as Backend::absent_because where there are none
};

/// Looks once for each process.
const Presence& presence();

/// The oldest compute capability that device code was compiled for: 750 for 7.5.
int oldest_architecture();

/// The compute capability that the code was compiled for which a GPU of `capability` runs: 0 for
/// none. It may be older than the GPU.
int architecture_for(int capability);

}  // namespace sinter::cuda
