#include <cmath>
#include <cstring>

#include <sinter/autograd/functions.h>
#include <sinter/runtime/graph.h>
#include <sinter/training/clip.h>
#include <sinter/training/grad_scaler.h>

namespace sinter {

GradScaler::GradScaler(const GradScalerOptions& o)
    : args_{o.growth_factor, o.backoff_factor, o.growth_interval}, init_scale_(o.init_scale) {
  check(std::isfinite(o.init_scale) && o.init_scale > 0,
        "GradScaler: init_scale must be finite and above 0, got ", o.init_scale);
  check(std::isfinite(o.growth_factor) && o.growth_factor > 1,
        "GradScaler: growth_factor must be above 1, got ", o.growth_factor);
  check(o.backoff_factor > 0 && o.backoff_factor < 1,
        "GradScaler: backoff_factor must lie in (0, 1), got ", o.backoff_factor);
  check(o.growth_interval >= 1, "GradScaler: growth_interval must be at least 1, got ",
        o.growth_interval);
}

// The state follows the losses from device to device.
void GradScaler::place(Device device) {
  if (!scale_.defined()) {
    scale_ = Tensor::full({}, init_scale_, DType::float32, device);
    clean_ = Tensor::zeros({}, DType::int64, device);
    skipped_ = Tensor::zeros({}, DType::int64, device);
    found_ = Tensor::zeros({}, DType::int32, device);
  } else if (scale_.device() != device) {
    for (Tensor* state : {&scale_, &clean_, &skipped_, &found_}) {
      *state = state->to(device);
    }
  }
}

Tensor GradScaler::scale(const Tensor& loss) {
  check(loss.defined() && is_floating(loss.dtype()) && loss.dtype() != DType::float64,
        "GradScaler: expected a loss of type float32, float16 or bfloat16, got ", loss.dtype());
  place(loss.device());
  return cast(loss, DType::float32) * scale_;
}

void GradScaler::unscale(Optimizer& optimizer, double max_norm) {
  check(!unscaled_,
        "GradScaler: the gradients are divided by the scale already; call update() after step()");
  place(optimizer.parameters().front().state->device);
  unscale_grad_norm(optimizer.parameters(), scale_, found_, max_norm);
  unscaled_ = true;
}

void GradScaler::step(Optimizer& optimizer) {
  if (!unscaled_) {
    unscale(optimizer);
  }
  if (Graph* const graph = Graph::recording()) {
    const Tensor known = graph->live({}, DType::int64, [this](std::span<std::byte> to) {
      std::memcpy(to.data(), &known_, sizeof known_);
    });
    optimizer.step_unless({found_, skipped_, known});
  } else if (found_.to_vector<std::int32_t>().front() != 0) {
    optimizer.skip_step();
    ++known_;  // the optimizer never counted it
  } else {
    optimizer.step();
  }
}

void GradScaler::update() {
  check(unscaled_, "GradScaler: update() comes after step() or unscale()");
  ops::scale_update(scale_, clean_, skipped_, found_, args_);
  unscaled_ = false;
}

double GradScaler::scale_factor() const {
  return scale_.defined() ? static_cast<double>(scale_.to_vector<float>().front()) : init_scale_;
}

std::int64_t GradScaler::skipped() const {
  return skipped_.defined() ? skipped_.to_vector<std::int64_t>().front() : 0;
}

void GradScaler::settle(Optimizer& optimizer) {
  const std::int64_t skipped_so_far = skipped();
  optimizer.uncount_steps(skipped_so_far - known_);
  known_ = skipped_so_far;
}

}  // namespace sinter
