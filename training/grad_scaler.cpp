#include <cmath>
#include <cstring>

#include <sinter/autograd/functions.h>
#include <sinter/layers/text_form.h>
#include <sinter/runtime/graph.h>
#include <sinter/training/clip.h>
#include <sinter/training/grad_scaler.h>

namespace sinter {

GradScaler::GradScaler(const GradScalerOptions& o)
    : args_{o.growth_factor, o.backoff_factor, o.growth_interval}, init_scale_(o.init_scale) {
  check(o.init_scale >= 0x1p-126 && o.init_scale < 0x1p128,
        "GradScaler: init_scale must lie in float32's range above 0, got ", o.init_scale);
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
    check(Graph::recording() == nullptr,
          "GradScaler: a graph cannot hold its first step; make one before recording");
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

void GradScaler::visit_state(StateVisitor& visitor) {
  if (!scale_.defined()) {
    place(Device::cpu());  // the first loss takes it along
  }
  visitor.tensor("scale", scale_);
  visitor.tensor("clean", clean_);
  visitor.tensor("skipped", skipped_);
  visitor.number("known", known_, 0);
}

std::string GradScaler::text() const {
  return TextForm("GradScaler")
      .argument("growth_factor", args_.growth_factor)
      .argument("backoff_factor", args_.backoff_factor)
      .argument("growth_interval", args_.growth_interval)
      .str();
}

Tensor GradScaler::scale(const Tensor& loss) {
  check(loss.defined(), "GradScaler: the loss is undefined");
  check(is_floating(loss.dtype()) && loss.dtype() != DType::float64,
        "GradScaler: expected a loss of type float32, float16 or bfloat16, got ", loss.dtype());
  place(loss.device());
  is_scaled_ = true;
  unscaled_ = nullptr;  // of a step that ended with an error
  stepped_ = false;
  return cast(loss, DType::float32) * scale_;
}

void GradScaler::unscale(Optimizer& optimizer, double max_norm) {
  check(unscaled_ == nullptr || unscaled_ == &optimizer,
        "GradScaler: it has another optimizer's gradients at hand; give each a scaler of its own");
  check(is_scaled_, "GradScaler: no loss was scaled since update(); backward takes scale(loss)");
  check(unscaled_ == nullptr,
        "GradScaler: the gradients are divided by the scale already; call update() after step()");
  const ParameterState& first = *optimizer.parameters().front().state;
  check(first.dtype == DType::float32, "GradScaler: the parameters are ", first.dtype,
        ", in which gradients lose what the scale was to keep; it is for float32 parameters");
  place(first.device);
  unscale_grad_norm("GradScaler", optimizer.parameters(), scale_, found_, max_norm);
  unscaled_ = &optimizer;
}

void GradScaler::step(Optimizer& optimizer) {
  check(!stepped_ || unscaled_ == &optimizer,
        "GradScaler: it has another optimizer's gradients at hand; give each a scaler of its own");
  check(!stepped_, "GradScaler: step() was called already; call update() after it");
  if (unscaled_ != &optimizer) {
    unscale(optimizer);
  }
  stepped_ = true;
  if (Graph* const graph = Graph::recording()) {
    const Tensor known = graph->live({}, DType::int64, [this](std::span<std::byte> to) {
      std::memcpy(to.data(), &known_, sizeof known_);
    });
    optimizer.step_unless({found_, skipped_, known});
    return;
  }
  settle(optimizer);
  if (found_.to_vector<std::int32_t>().front() != 0) {
    optimizer.skip_step();
    ++known_;  // the optimizer never counted it
  } else {
    optimizer.step();
  }
}

void GradScaler::update() {
  check(unscaled_ != nullptr, "GradScaler: update() comes after step() or unscale()");
  ops::scale_update(scale_, clean_, skipped_, found_, args_);
  is_scaled_ = false;
  unscaled_ = nullptr;
  stepped_ = false;
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
