#include <sinter/kernels/cuda/faults.h>
#include <sinter/runtime/graph.h>

namespace sinter::cuda {

FaultPlace::FaultPlace(Device device) : is_kept_(Graph::recording() != nullptr) {
  words_ = is_kept_ ? Graph::recording()->fault() : Tensor::empty({3}, DType::int64, device);
}

FaultNote FaultPlace::note() const { return {words_.raw<std::int64_t>(), is_kept_}; }

std::optional<Fault> FaultPlace::found() const {
  if (is_kept_) {
    return {};
  }
  const auto words = words_.to_vector<std::int64_t>();
  if (words[0] == Graph::no_fault) {
    return {};
  }
  return Fault{words[0], words[1], words[2]};
}

}  // namespace sinter::cuda
