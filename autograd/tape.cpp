#include <algorithm>
#include <atomic>
#include <utility>

#include <sinter/autograd/anomaly.h>
#include <sinter/autograd/autocast.h>
#include <sinter/autograd/deferred.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/tape.h>
#include <sinter/kernels/ops.h>
#include <sinter/runtime/log.h>

namespace sinter {
namespace {

std::atomic<std::uint64_t> next_id{1};

// A tape of this length is most likely a loop of forwards that forgot backward, or put the tape
// outside the loop; its memory grows with every call.
constexpr std::size_t suspicious_length = 10'000;

// The caller is about to drop `gradient`: whether nobody else has its elements.
bool is_sole_owner(const Tensor& gradient) {
  return gradient.storage().use_count() == 1 && gradient.storage()->whole() == nullptr;
}

void add_into(Tensor& sum, const Tensor& term) {
  const Tensor shaped = term.reshape(sum.shape());
  if (is_sole_owner(sum)) {
    ops::accumulate(shaped, sum);
  } else {
    Tensor fresh = Tensor::empty(sum.shape(), sum.dtype(), sum.device());
    ops::add(sum, shaped, fresh);
    sum = fresh;
  }
}

}  // namespace

namespace detail {

struct TapeScope::Entry {
  explicit Entry(Tape* of) : tape(of) {}

  Tape* tape;
  std::atomic<bool> alive{true};
};

namespace {

thread_local std::vector<std::shared_ptr<TapeScope::Entry>> stack;

// The thread that owns the stack clears away what ended, wherever it did.
void drop_ended() {
  while (!stack.empty() && !stack.back()->alive) {
    stack.pop_back();
  }
}

}  // namespace

TapeScope::TapeScope(Tape* tape) : entry_(std::make_shared<Entry>(tape)) {
  drop_ended();
  stack.push_back(entry_);
}

TapeScope::~TapeScope() {
  entry_->alive = false;
  drop_ended();
}

}  // namespace detail

Tape::Tape() : id_(next_id++) {}

// What nobody has asked for yet is computed while its operands are what they were.
Tape::~Tape() {
  if (deferred_ != nullptr) {
    try {
      deferred_->materialise();
    } catch (const std::exception& error) {
      log::warn(text("a gradient that was put off could not be computed: ", error.what()));
    }
  }
}

Tape* Tape::current() {
  detail::drop_ended();
  return detail::stack.empty() ? nullptr : detail::stack.back()->tape;
}

void Tape::uses(const std::shared_ptr<Generator>& generator) {
  if (std::ranges::find(generators_, generator) == generators_.end()) {
    generators_.push_back(generator);
  }
}

void Tape::backward(const Tensor& loss) {
  check(loss.numel() == 1, "Tape::backward: the loss must be one element, its shape is ",
        loss.shape(), "; take its mean or sum, or pass the gradient that comes into it");
  run(loss, {});
}

void Tape::backward(const Tensor& value, const Tensor& gradient) {
  check(gradient.defined() && gradient.shape() == value.shape() &&
            gradient.dtype() == value.dtype() && gradient.device() == value.device(),
        "Tape::backward: the gradient must have the value's shape, type and device (",
        value.shape(), ", ", value.dtype(), ", ", value.device(), ")");
  run(value, gradient.detach());
}

void Tape::run(const Tensor& value, const Tensor& gradient) {
  check(!done_,
        "Tape::backward: it has already run on this tape, and what was recorded is freed; "
        "make a new Tape for each forward pass");
  check(value.slot().tape == id_,
        "Tape::backward: the value was not recorded by this tape; either no input or parameter "
        "needs a gradient, or the forward pass ran before the tape was made");
  check(value.slot().version == value.version(),
        "Tape::backward: the value was written to in place since it was recorded");
  done_ = true;
  const detail::BackwardInAnomaly place;
  const NoTape suspended;
  const Autocast none(std::nullopt);
  const auto last = static_cast<std::size_t>(value.slot().index);
  if (gradient.defined()) {
    nodes_[last].gradient = gradient.reshape(nodes_[last].kind.shape);
  }
  try {
    for (std::size_t i = last + 1; i-- > 0;) {
      Node& node = nodes_[i];
      Tensor incoming = std::exchange(node.gradient, {});
      if ((incoming.defined() || i == last) && node.backward) {
        place.enter(node.name, node.layer);
        Backward context(*this, node, std::move(incoming));
        node.backward(context);
      }
      node.backward = nullptr;  // frees what it kept
    }
  } catch (...) {
    // Half a gradient is none: the next backward starts afresh.
    for (const Node& node : nodes_) {
      for (const Edge& edge : node.inputs) {
        if (edge.leaf) {
          edge.leaf->drop();
        }
      }
    }
    nodes_.clear();
    deferred_ = nullptr;
    throw;
  }
  nodes_.clear();
  for (const auto& generator : generators_) {
    generator->advance_step();
  }
}

// Whether a function on the tape wrote to the elements of x through another handle, so that x, of
// which no tape knows, lacks their history.
bool lacks_history(const Tensor& x, std::uint64_t tape) {
  return x.slot().tape == 0 && (x.leaf() != nullptr || x.slot().index != TapeSlot::detached) &&
         x.storage()->written_on_tape() == tape;
}

bool needs_gradient(const Tensor& x) {
  const Tape* tape = Tape::current();
  return tape != nullptr && x.defined() &&
         (x.leaf() != nullptr || x.slot().tape != 0 || lacks_history(x, tape->id_));
}

Recording::Recording(std::string_view name,
                     std::initializer_list<std::reference_wrapper<const Tensor>> inputs) {
  if (!std::ranges::any_of(inputs, [](const Tensor& x) { return needs_gradient(x); })) {
    return;
  }
  Tape* const tape = Tape::current();
  node_.name = name;
  node_.inputs.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    Tape::Edge edge;
    const TapeSlot& slot = input.slot();
    if (slot.tape != 0) {
      check(slot.tape == tape->id_, name, ": an input of shape ", input.shape(),
            " was recorded by another tape, or by one that has gone; detach() it, or keep numbers "
            "with item()");
      check(!tape->done_, name,
            ": backward has already run on this tape; make a new Tape for each "
            "forward pass");
      check(slot.version == input.version(), name, ": an input of shape ", input.shape(),
            " was written to in place since it was recorded, through another handle");
      edge.node = slot.index;
    } else if (input.defined()) {
      check(!lacks_history(input, tape->id_), name, ": an input of shape ", input.shape(),
            " shares its elements with a tensor that was written to in place on this "
            "tape; use the handle that was written to");
      edge.leaf = input.leaf();
      edge.dtype = input.dtype();
      edge.device = input.device();
    }
    node_.inputs.push_back(std::move(edge));
  }
  tape_ = tape;
}

void Recording::finish_in_place(Tensor& output, std::function<void(Backward&)> backward) {
  check(tape_ != nullptr && output.defined(),
        "Recording::finish_in_place: the recording is off, has ended, or the output is undefined");
  output.storage()->set_written_on_tape(tape_->id_);
  finish(output, std::move(backward));
}

const Pass* Recording::pass_of(int input) const {
  const Tape::Edge& edge = node_.inputs[static_cast<std::size_t>(input)];
  return edge.node < 0 ? nullptr : tape_->nodes_[static_cast<std::size_t>(edge.node)].pass.get();
}

void Recording::finish(Tensor& output, std::function<void(Backward&)> backward,
                       std::shared_ptr<const Pass> pass) {
  check(tape_ != nullptr && output.defined(),
        "Recording::finish: the recording is off, has ended, or the output is undefined");
  check(backward != nullptr, node_.name, ": recorded without a backward function");
  node_.backward = std::move(backward);
  node_.kind = {output.shape(), output.dtype(), output.device()};
  node_.pass = std::move(pass);
  if (DetectAnomaly::is_on()) {
    node_.layer = detail::check_recorded(node_.name, output);
  }
  for (const Tape::Edge& edge : node_.inputs) {
    if (edge.node >= 0) {
      ++tape_->nodes_[static_cast<std::size_t>(edge.node)].uses;
    }
  }
  const auto index = static_cast<std::int32_t>(tape_->nodes_.size());
  tape_->nodes_.push_back(std::move(node_));
  output.set_leaf(nullptr);
  output.set_slot({tape_->id_, index, output.version()});
  const Tape& tape = *std::exchange(tape_, nullptr);
  if (tape.nodes_.size() == suspicious_length) {
    log::warn(text("a tape has recorded ", suspicious_length,
                   " functions without backward and keeps their memory; make a Tape for each step, "
                   "inside the loop"));
  }
}

Tape::Kind Tape::kind_of(const Edge& edge) const {
  if (!edge.leaf) {
    return nodes_[static_cast<std::size_t>(edge.node)].kind;
  }
  const Leaf& leaf = *edge.leaf;
  check(leaf.dtype == edge.dtype && leaf.device == edge.device,
        "Tape::backward: a parameter of shape ", leaf.shape, " was ", edge.dtype, " on ",
        edge.device, " in the forward pass and is ", leaf.dtype, " on ", leaf.device,
        " now; call to() before the forward pass or after backward");
  return {leaf.shape, leaf.dtype, leaf.device};
}

bool Recording::needs(int input) const {
  const auto i = static_cast<std::size_t>(input);
  return i < node_.inputs.size() && node_.inputs[i].wanted();  // none where the recording is off
}

Tensor Backward::over_grad() const {
  const Tensor& dy = grad();
  return is_sole_owner(dy) ? dy : Tensor::empty(dy.shape(), dy.dtype(), dy.device());
}

bool Backward::needs(int input) const {
  check(input >= 0 && static_cast<std::size_t>(input) < node_.inputs.size(), node_.name,
        ": its backward speaks of input ", input, ", but ", node_.inputs.size(), " were recorded");
  return node_.inputs[static_cast<std::size_t>(input)].wanted();
}

const Tensor& Saved::get(const std::string& who) const {
  check(!tensor_.defined() || tensor_.version() == version_, who, ": a tensor of shape ",
        tensor_.shape(),
        " that its backward needs was written to in place after the forward pass (by +=, copy_from "
        "or an optimizer step); write y = y + x instead, or do it after backward");
  return tensor_;
}

const Pass* Backward::pass_below(int input) const {
  const Tape::Edge& edge = node_.inputs[static_cast<std::size_t>(input)];
  if (edge.node < 0 || DetectAnomaly::is_on()) {  // which tells one function from the other
    return nullptr;
  }
  const Tape::Node& below = tape_.nodes_[static_cast<std::size_t>(edge.node)];
  return below.uses == 1 ? below.pass.get() : nullptr;
}

void Backward::give_through_pass(int input, const Tensor& gradient) {
  check(pass_below(input) != nullptr, node_.name, ": input ", input,
        " came out of no pass, or others want its gradient; use give()");
  give(input, gradient);
  const Tape::Edge& edge = node_.inputs[static_cast<std::size_t>(input)];
  tape_.nodes_[static_cast<std::size_t>(edge.node)].is_through_pass = true;
}

bool Backward::can_defer(int weight, int bias) const {
  const auto is_leaf_or_unwanted = [&](int input) {
    return input < 0 || !needs(input) ||
           node_.inputs[static_cast<std::size_t>(input)].leaf != nullptr;
  };
  return is_leaf_or_unwanted(weight) && is_leaf_or_unwanted(bias) && !DetectAnomaly::is_on();
}

void Backward::defer_weights(int weight, int bias, const Tensor& dy, const Saved& x) {
  const auto leaf_of = [&](int input) {
    if (input < 0 || !needs(input)) {
      return std::shared_ptr<Leaf>{};
    }
    const Tape::Edge& edge = node_.inputs[static_cast<std::size_t>(input)];
    tape_.kind_of(edge);  // or the error: it has moved
    return edge.leaf;
  };
  if (tape_.deferred_ == nullptr) {
    tape_.deferred_ = std::make_shared<DeferredGradients>();
  }
  const auto weight_leaf = leaf_of(weight), bias_leaf = leaf_of(bias);
  DeferredGradients::Entry entry{node_.name, Saved(dy), x, weight_leaf, bias_leaf};
  if (weight_leaf != nullptr || bias_leaf != nullptr) {
    tape_.deferred_->add(std::move(entry));
  }
}

void Backward::give(int input, const Tensor& gradient) {
  if (!needs(input)) {
    return;
  }
  const Tape::Edge& edge = node_.inputs[static_cast<std::size_t>(input)];
  const auto [shape, dtype, device] = tape_.kind_of(edge);
  check(gradient.defined() && gradient.numel() == shape.numel() && gradient.dtype() == dtype &&
            gradient.device() == device,
        node_.name, ": its backward gave a gradient of ", gradient.dtype(), " ", gradient.shape(),
        " on ", gradient.device(), " for input ", input, ", which is ", dtype, " ", shape, " on ",
        device);
  detail::check_given(node_.name, input, gradient);
  Tensor* kept =
      edge.leaf ? &edge.leaf->grad : &tape_.nodes_[static_cast<std::size_t>(edge.node)].gradient;
  if (edge.leaf) {
    edge.leaf->settle();
  }
  const bool first = edge.leaf ? !edge.leaf->fresh : !kept->defined();
  if (!first && edge.leaf) {
    ops::accumulate(gradient.reshape(shape), *kept);
  } else if (!first) {
    add_into(*kept, gradient);
  } else if (edge.leaf) {
    // A leaf keeps its gradient beyond this walk, so its elements are its own.
    if (!kept->defined()) {
      *kept = Tensor::empty(shape, gradient.dtype(), gradient.device());
    }
    kept->copy_from(gradient.detach().reshape(kept->shape()));
  } else {
    *kept = gradient.detach().reshape(shape);
  }
  if (edge.leaf) {
    edge.leaf->fresh = true;
  }
}

Backward::Target Backward::target_of(int input, const Shape& shape) {
  const Tape::Edge& edge = node_.inputs[static_cast<std::size_t>(input)];
  const auto kind = tape_.kind_of(edge);
  if (edge.leaf) {
    Leaf& leaf = *edge.leaf;
    leaf.settle();
    if (!leaf.grad.defined()) {
      leaf.grad = Tensor::empty(leaf.shape, kind.dtype, kind.device);
    }
    return {leaf.grad.reshape(shape), leaf.fresh, true};
  }
  const Tensor& kept = tape_.nodes_[static_cast<std::size_t>(edge.node)].gradient;
  if (kept.defined() && is_sole_owner(kept)) {
    return {kept.reshape(shape), true, true};
  }
  return {Tensor::empty(shape, kind.dtype, kind.device), false, false};
}

void Backward::finish(int input, const Target& target) {
  const Tape::Edge& edge = node_.inputs[static_cast<std::size_t>(input)];
  if (!target.is_kept) {
    give(input, target.gradient);
    return;
  }
  detail::check_given(node_.name, input, target.gradient);
  if (edge.leaf) {
    check(target.gradient.address() == edge.leaf->grad.address(), node_.name,
          ": its backward replaced the tensor that it was to write the gradient of input ", input,
          " into; use give() for a tensor of its own");
    edge.leaf->fresh = true;
  }
}

}  // namespace sinter
