#include <utility>

#include <sinter/autograd/deferred.h>

namespace sinter {
namespace {

// Whether there is a gradient to add to. One that is pending itself is computed first: entries of
// one launch must not write to one place.
bool settle(const std::shared_ptr<Leaf>& leaf) {
  if (leaf == nullptr) {
    return false;
  }
  leaf->settle();
  return leaf->fresh;
}

}  // namespace

void DeferredGradients::add(Entry entry) {
  const auto weight = entry.weight.lock(), bias = entry.bias.lock();
  entry.flags = {settle(weight), settle(bias)};
  for (const auto& leaf : {weight, bias}) {
    if (leaf != nullptr) {
      if (!leaf->grad.defined()) {
        leaf->grad = Tensor::empty(leaf->shape, leaf->dtype, leaf->device);
      }
      leaf->pending = shared_from_this();
      leaf->fresh = true;
    }
  }
  entries_.push_back(std::move(entry));
}

Tensor DeferredGradients::input_of(const Entry& entry) {
  const Tensor& x = entry.x.get(entry.name);
  return x.reshape({x.shape().rows(), x.shape().last()});
}

bool DeferredGradients::is_pending(const std::shared_ptr<Leaf>& leaf) const {
  return leaf != nullptr && leaf->pending.get() == this;
}

void DeferredGradients::materialise() {
  const auto alive = shared_from_this();  // the leaves may be the last to hold it
  const auto entries = std::exchange(entries_, {});
  const auto for_each_pending = [&](auto use) {
    for (const Entry& entry : entries) {
      for (const auto& leaf : {entry.weight.lock(), entry.bias.lock()}) {
        if (is_pending(leaf)) {
          use(*leaf);
        }
      }
    }
  };
  std::vector<Tensor> dy, x, dw, db;
  std::vector<ops::WeightGradientFlags> flags;
  const auto target = [this](const std::shared_ptr<Leaf>& leaf) {
    return is_pending(leaf) ? leaf->grad : Tensor{};
  };
  try {
    for (const Entry& entry : entries) {
      dw.push_back(target(entry.weight.lock()));
      db.push_back(target(entry.bias.lock()));
      if (!dw.back().defined() && !db.back().defined()) {
        dw.pop_back();
        db.pop_back();
        continue;
      }
      dy.push_back(gradient_of(entry));
      x.push_back(input_of(entry));
      flags.push_back(entry.flags);
    }
    if (!dy.empty()) {  // an optimizer may have taken all of it over
      ops::weight_gradients(dy, x, dw, db, flags);
    }
  } catch (...) {
    for_each_pending([](Leaf& leaf) { leaf.drop(); });
    throw;
  }
  for_each_pending([](Leaf& leaf) { leaf.pending = nullptr; });
}

}  // namespace sinter
