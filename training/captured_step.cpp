#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include <sinter/autograd/anomaly.h>
#include <sinter/autograd/autocast.h>
#include <sinter/kernels/dispatch.h>
#include <sinter/kernels/faults.h>
#include <sinter/kernels/ops.h>
#include <sinter/kernels/precision.h>
#include <sinter/layers/text_form.h>
#include <sinter/runtime/graph.h>
#include <sinter/runtime/log.h>
#include <sinter/training/captured_step.h>
#include <sinter/training/ema.h>

namespace sinter {
namespace {

// Graphs of this many kinds are kept: full batches and the last one, for training at two sizes.
constexpr std::size_t most_kinds = 4;

// Batches are gathered for so many bytes at a time, which stay in a GPU's second-level cache until
// their steps come: few launches, and few steps that do not follow each other at once. A batch that
// is larger by itself is gathered when its step comes: there, a second one in memory is dear and
// the time for it is not.
constexpr std::size_t most_bytes_ahead = 16 << 20;

// How many batches like `one` are gathered together, 0 where it is too large for any to be gathered
// ahead. Each has to begin where a tensor of its own may, at a multiple of 16 bytes: kernels are
// chosen by that, whose sums differ in the last bit.
std::int64_t batches_together(const Batch& one) {
  const std::size_t inputs = one.inputs.bytes(), targets = one.targets.bytes();
  const std::size_t room = most_bytes_ahead / std::max<std::size_t>(1, inputs + targets);
  if (room > 1 && (inputs % 16 != 0 || targets % 16 != 0)) {
    return 1;
  }
  return static_cast<std::int64_t>(room);
}

Batch batch_in(const Batch& batches, std::int64_t k, std::int64_t size) {
  return {batches.inputs.view_rows(k * size, (k + 1) * size),
          batches.targets.view_rows(k * size, (k + 1) * size)};
}

Tensor stacked(const std::vector<Tensor>& scalars) {
  Tensor out = Tensor::empty({static_cast<std::int64_t>(scalars.size())}, scalars.front().dtype(),
                             scalars.front().device());
  ops::stack(scalars, out);
  return out;
}

}  // namespace

CapturedStep::CapturedStep(Module& model, Loss loss, Optimizer& optimizer)
    : model_(model), loss_(std::move(loss)), optimizer_(optimizer) {
  sinter::check(loss_ != nullptr, "CapturedStep: the loss is empty");
}

CapturedStep::~CapturedStep() = default;

void CapturedStep::reset() { recorded_.clear(); }

void CapturedStep::set_capture(bool on) { capture_ = on; }

void CapturedStep::set_max_grad_norm(std::optional<double> max_norm) {
  sinter::check(!max_norm || *max_norm > 0, "CapturedStep: max_grad_norm must be above 0, got ",
                max_norm.value_or(0));
  max_grad_norm_ = max_norm;
}

void CapturedStep::set_max_grad_value(std::optional<double> max_value) {
  sinter::check(!max_value || *max_value > 0, "CapturedStep: max_grad_value must be above 0, got ",
                max_value.value_or(0));
  max_grad_value_ = max_value;
}

void CapturedStep::set_micro_batch(std::optional<std::int64_t> rows) {
  sinter::check(!rows || *rows > 0, "CapturedStep: a micro-batch must have at least 1 row, got ",
                rows.value_or(0));
  micro_batch_ = rows;
}

Device CapturedStep::device() const { return optimizer_.parameters().front().state->device; }

bool CapturedStep::captures() const {
  return capture_ && !DetectAnomaly::is_on() && Graph::can_record(device());
}

// By a backward of the caller's: a recorded step would add to them in each replay, or never.
bool CapturedStep::has_gradients() const {
  return std::ranges::any_of(optimizer_.parameters(), has_gradient);
}

std::string CapturedStep::kind(const std::string& of_batch) {
  const Generator& generator = *model_.generator();
  std::string out = text(of_batch, "|", model_.text(), "|", static_cast<int>(matmul_precision()),
                         "|", static_cast<const void*>(&generator), " ", generator.seed(), " ",
                         generator.next_call(), "|", shortest(max_grad_norm_.value_or(0)), " ",
                         shortest(max_grad_value_.value_or(0)), " ", micro_batch_.value_or(0), "|",
                         static_cast<const void*>(scaler_), " ", static_cast<const void*>(ema_));
  if (const auto narrow = Autocast::dtype()) {
    out += text(*narrow);
  }
  detail::for_each_module(
      model_, [&](const std::string&, Module& module) { out += module.training() ? 't' : 'e'; });
  const auto add = [&out](const Tensor& tensor) {
    out += text("|", static_cast<const void*>(tensor.address()), tensor.dtype());
  };
  for (const NamedParameter& parameter : optimizer_.parameters()) {
    add(parameter.value());
    out += parameter.value().requires_grad() ? "t" : "f";
  }
  for (const NamedParameter& parameter : model_.parameters()) {
    add(parameter.value());
  }
  for (const NamedBuffer& buffer : model_.buffers()) {
    add(buffer.value);
  }
  for (const Tensor& state : optimizer_.state()) {
    add(state);
  }
  if (ema_ != nullptr) {
    add(ema_->state());
  }
  if (scaler_ != nullptr && scaler_->is_placed()) {
    for (const Tensor& state : scaler_->state()) {
      add(state);
    }
  }
  return out;
}

void CapturedStep::stay_eager(const std::string& why) {
  capture_ = false;
  reset();
  optimizer_.set_coming_lrs({});
  if (said_ != why) {
    log::warn(text("CapturedStep: steps run eagerly, not from a graph: ", why));
    said_ = why;
  }
}

Tensor CapturedStep::run(const std::string& of_batch, std::int64_t steps,
                         const std::function<Tensor()>& eagerly,
                         const std::function<void(Recorded&)>& prepare,
                         const std::function<Tensor(Recorded&)>& body) {
  const auto found = std::ranges::find(recorded_, kind(of_batch), &Recorded::kind);
  if (found == recorded_.end()) {
    const std::int64_t fallbacks = fallback_count();
    const Tensor losses = eagerly();
    if (fallback_count() != fallbacks) {
      stay_eager("an op has no kernel for the device and ran on the CPU");
    } else {
      // What the first step allocated is part of the kind.
      recorded_.push_front({kind(of_batch), nullptr, {}, {}, {}});
      if (recorded_.size() > most_kinds) {
        recorded_.pop_back();
      }
    }
    return losses;
  }
  recorded_.splice(recorded_.begin(), recorded_, found);
  Recorded& entry = recorded_.front();
  if (entry.graph == nullptr) {
    if (!fault_.defined() || fault_.device() != device()) {
      fault_ = Graph::no_faults(device());
    }
    auto graph = std::make_unique<Graph>(device(), fault_);
    prepare(entry);
    try {
      graph->record([&] { entry.losses = body(entry); });
    } catch (const Error& error) {
      optimizer_.clear_gradients();  // of a backward that was not done
      stay_eager(error.what());
      return eagerly();
    } catch (...) {
      optimizer_.clear_gradients();
      optimizer_.set_coming_lrs({});
      reset();
      throw;
    }
    entry.graph = std::move(graph);
    entry.kept = optimizer_.state();
    if (ema_ != nullptr) {
      entry.kept.push_back(ema_->state());
    }
    if (scaler_ != nullptr) {
      std::ranges::copy(scaler_->state(), std::back_inserter(entry.kept));
    }
    for (const NamedParameter& parameter : optimizer_.parameters()) {
      if (const auto& leaf = parameter.value().leaf()) {
        entry.kept.push_back(leaf->grad);
      }
    }
  } else {
    prepare(entry);
  }
  if (scaler_ != nullptr) {
    scaler_->settle(optimizer_);
  }
  entry.graph->replay();
  replayed_ += steps;
  return entry.losses.clone();  // the next replay overwrites its own
}

Tensor CapturedStep::operator()(const Batch& batch) {
  if (!captures() || has_gradients()) {
    return step(batch);
  }
  const std::string of_batch =
      text(batch.inputs.dtype(), batch.inputs.shape(), batch.inputs.device(), " ",
           batch.targets.dtype(), batch.targets.shape(), batch.targets.device());
  return run(
      of_batch, 1, [&] { return step(batch); },
      [&](Recorded& entry) {
        if (entry.graph == nullptr) {
          entry.slots = {batch.inputs.detach().clone(), batch.targets.detach().clone()};
        } else {
          entry.slots.inputs.copy_from(batch.inputs.detach());
          entry.slots.targets.copy_from(batch.targets.detach());
        }
      },
      [this](Recorded& entry) { return step(entry.slots); });
}

Tensor CapturedStep::operator()(const Dataset& resident, std::span<const std::int64_t> order,
                                std::int64_t batch_size, std::span<const double> lrs) {
  const auto items = static_cast<std::int64_t>(order.size());
  sinter::check(batch_size >= 1 && items >= batch_size && items % batch_size == 0,
                "CapturedStep: ", items, " items are no whole number of batches of ", batch_size);
  const std::int64_t steps = items / batch_size;
  sinter::check(lrs.empty() || static_cast<std::int64_t>(lrs.size()) == steps,
                "CapturedStep: ", steps, " steps take as many learning rates, got ", lrs.size());
  for (const std::int64_t item : order) {
    sinter::check(item >= 0 && item < resident.size(), "CapturedStep: item ", item,
                  " does not exist, there are ", resident.size(), ", counted from 0");
  }
  const auto batch_of = [&](std::int64_t k) {
    return order.subspan(static_cast<std::size_t>(k * batch_size),
                         static_cast<std::size_t>(batch_size));
  };
  const auto eagerly = [&] {
    std::vector<Tensor> losses;
    for (std::int64_t k = 0; k < steps; ++k) {
      if (!lrs.empty()) {
        optimizer_.set_lr(lrs[static_cast<std::size_t>(k)]);
      }
      losses.push_back(step(resident.batch(batch_of(k), device())));
    }
    return stacked(losses);
  };
  if (!captures() || has_gradients()) {
    return eagerly();
  }
  return run(
      text(steps, " x ", batch_size, " of ", resident.id()), steps, eagerly,
      [&](Recorded&) {
        order_.assign(order.begin(), order.end());
        optimizer_.set_coming_lrs({lrs.begin(), lrs.end()});
      },
      [&](Recorded&) {
        Graph& graph = *Graph::recording();
        std::vector<Tensor> losses;
        // The first batch is there soon; while some steps run, the batches of the next are
        // gathered, up to twice as many.
        Batch batches = gathered(resident, 0, batch_size);
        const std::int64_t together = batches_together(batches);
        std::int64_t count = 1;
        for (std::int64_t first = 0; first < steps;) {
          const std::int64_t next = first + count;
          const std::int64_t next_count =
              std::min({2 * count, std::max<std::int64_t>(1, together), steps - next});
          Batch coming;
          const auto gather_next = [&] {
            coming = gathered(resident, next * batch_size, next_count * batch_size);
          };
          if (together > 0 && next_count > 0) {
            graph.beside(gather_next);
          }
          for (std::int64_t k = 0; k < count; ++k) {
            losses.push_back(step(batch_in(batches, k, batch_size)));
          }
          graph.join();
          batches = {};
          if (together == 0 && next_count > 0) {
            gather_next();
          }
          batches = coming;
          first = next;
          count = next_count;
        }
        return stacked(losses);
      });
}

Batch CapturedStep::gathered(const Dataset& resident, std::int64_t first, std::int64_t count) {
  const Tensor indices =
      Graph::recording()->live({count}, DType::int64, [this, first](std::span<std::byte> to) {
        std::memcpy(to.data(), order_.data() + first, to.size());
      });
  return resident.gather(indices);
}

void CapturedStep::check() {
  const auto fault = fault_.defined() ? Graph::take_fault(fault_) : std::nullopt;
  if (fault) {
    const auto [row, label, classes] = *fault;
    throw Error(text(label_sentence("the loss", {row, label, classes}, false),
                     "; a replayed step met it, there or as an index of an Embedding, and none has "
                     "changed anything since"));
  }
}

}  // namespace sinter
