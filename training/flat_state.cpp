#include <utility>

#include <sinter/training/flat_state.h>

namespace sinter {

bool FlatState::follows(const Parameters& parameters) const {
  const ParameterState& first = *parameters.front().state;
  return is_placed() && dtype_ == first.dtype && device_ == first.device;
}

void FlatState::follow(const Parameters& parameters) {
  const ParameterState& first = *parameters.front().state;
  const bool widened = wide_ && size_of(first.dtype) < size_of(DType::float32);
  const DType dtype = widened ? DType::float32 : first.dtype;
  std::vector<std::int64_t> offsets;
  std::int64_t elements = 0;
  for (const NamedParameter& parameter : parameters) {
    offsets.push_back(elements);
    elements += padded_numel(*parameter.state);
  }
  std::vector<Tensor> tensors;
  for (const Tensor& old : tensors_) {
    // Only the parameters had moved: what lies right is not copied.
    if (old.defined() && offsets == offsets_ && old.dtype() == dtype &&
        old.device() == first.device) {
      tensors.push_back(old);
      continue;
    }
    const int place = static_cast<int>(2 + tensors.size());
    tensors.push_back(flat_zeros(elements, dtype, first.device, place));
    // Another type pads differently: each parameter's part moves to its new place.
    for (std::size_t i = 0; old.defined() && i < parameters.size(); ++i) {
      const std::int64_t n = parameters[i].state->shape.numel();
      tensors.back()
          .view_rows(offsets[i], offsets[i] + n)
          .copy_from(old.view_rows(offsets_[i], offsets_[i] + n).to(dtype));
    }
  }
  dtype_ = first.dtype;
  device_ = first.device;
  tensors_ = std::move(tensors);
  offsets_ = std::move(offsets);
}

std::vector<Tensor> FlatState::rows(std::size_t i, std::int64_t elements) const {
  std::vector<Tensor> out;
  for (const Tensor& tensor : tensors_) {
    out.push_back(tensor.view_rows(offsets_[i], offsets_[i] + elements));
  }
  return out;
}

}  // namespace sinter
