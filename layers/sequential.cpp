#include <typeinfo>

#include <sinter/layers/module_call.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/softmax.h>

namespace sinter {
namespace {

// The module if it is exactly a T: a class derived from one may compute something else.
template <class T>
T* exactly(Module& module) {
  return typeid(module) == typeid(T) ? static_cast<T*>(&module) : nullptr;
}

// The norm to which another layer's activation can be added.
template <class... Norms>
NormModule* as_bare(Module& module) {
  const bool is_one = (... || (exactly<Norms>(module) != nullptr));
  auto* norm = is_one ? static_cast<NormModule*>(&module) : nullptr;
  return norm != nullptr && !norm->has_tail() ? norm : nullptr;
}

}  // namespace

template <class Work>
void Sequential::in_layer(std::size_t i, Work work) const {
  try {
    work();
  } catch (const AnomalyError&) {  // which names the layer itself
    throw;
  } catch (const Error& error) {
    throw Error(sinter::text("layer ", names()[i], " of the model: ", error.what()));
  }
}

Sequential::Sequential(const Sequential& other) : Module(other) {
  for (const Entry& entry : other.entries_) {
    entries_.push_back({entry.clone(*entry.module), entry.clone});
  }
}

Sequential& Sequential::operator=(const Sequential& other) {
  *this = Sequential(other);
  return *this;
}

Module& Sequential::operator[](std::size_t i) {
  check(i < entries_.size(), "Sequential: layer ", i, " does not exist, there are ",
        entries_.size());
  return *entries_[i].module;
}

std::vector<std::string> Sequential::names() const {
  std::vector<std::string> out;
  std::size_t place = 0;
  for (const Entry& entry : entries_) {
    out.push_back(std::to_string(place));
    const auto* activation = dynamic_cast<const ActivationModule*>(entry.module.get());
    const auto* gate = dynamic_cast<const GLUModule*>(entry.module.get());
    const auto* norm = dynamic_cast<const NormModule*>(entry.module.get());
    const auto* softmax = dynamic_cast<const Softmax*>(entry.module.get());
    const double drop_p = activation != nullptr ? activation->drop_p
                          : gate != nullptr     ? gate->drop_p
                          : softmax != nullptr  ? softmax->drop_p()
                                                : 0;
    place += norm != nullptr ? norm->modules_of_torch() : drop_p > 0 ? 2 : 1;
  }
  return out;
}

void Sequential::members(Members& members) {
  const std::vector<std::string> place = names();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    members.child(place[i], *entries_[i].module);
  }
}

std::size_t Sequential::run(std::size_t i, Tensor& x) {
  Module& module = *entries_[i].module;
  auto* linear = exactly<Linear>(module);
  auto* norm = as_bare<BatchNorm1d, BatchNorm2d, LayerNorm, RMSNorm>(module);
  auto* softmax = exactly<Softmax>(module);
  Module* const next = i + 1 < entries_.size() ? entries_[i + 1].module.get() : nullptr;
  auto* activation = next != nullptr ? exactly<ActivationModule>(*next) : nullptr;
  auto* masked = softmax != nullptr && softmax->drop_p() == 0 && next != nullptr
                     ? exactly<DropoutModule>(*next)
                     : nullptr;
  const bool fuses =
      ((linear != nullptr || norm != nullptr) && activation != nullptr) || masked != nullptr;
  // A summary wants to see every layer's output, an anomaly scope tells them apart.
  if (!fuses || detail::call_observer() != nullptr || DetectAnomaly::is_on()) {
    x = module(x);
    return 1;
  }
  if (masked != nullptr) {
    x = softmax->forward(x, masked->dropout_now());
    return 2;
  }
  DropoutOptions dropout = activation->dropout_now();
  std::size_t ran = 2;
  if (activation->drop_p == 0 && i + 2 < entries_.size()) {
    if (auto* behind = exactly<DropoutModule>(*entries_[i + 2].module)) {
      dropout = behind->dropout_now();
      ran = 3;
    }
  }
  x = linear != nullptr ? linear->forward(x, activation->act, dropout)
                        : norm->forward(x, activation->act, dropout);
  return ran;
}

Tensor Sequential::forward_to(std::size_t end, const Tensor& x) {
  attach();
  Tensor y = x;
  for (std::size_t i = 0; i < end;) {
    in_layer(i, [&] { i += run(i, y); });
  }
  return y;
}

Tensor Sequential::forward(const Tensor& x) { return forward_to(entries_.size(), x); }

Tensor Sequential::cross_entropy(const Tensor& x, const Tensor& labels,
                                 const CrossEntropyOptions& options) {
  auto* const last = entries_.empty() ? nullptr : exactly<Linear>(*entries_.back().module);
  if (last == nullptr) {
    return sinter::cross_entropy((*this)(x), labels, options);
  }
  const detail::ModuleCall call(*this);
  const std::size_t end = entries_.size() - 1;
  const Tensor features = forward_to(end, x);
  if (features.rank() != 2) {
    return sinter::cross_entropy((*last)(features), labels, options);
  }
  in_layer(end, [&] { last->check_input(features); });
  const detail::ModuleCall call_of_last(*last);
  return linear_cross_entropy(features, last->weight().value(), last->bias().value(), labels,
                              options);
}

std::string Sequential::text() const {
  std::string out;
  for (const Entry& entry : entries_) {
    const std::string text = entry.module->text();
    const bool nested = dynamic_cast<const Sequential*>(entry.module.get()) != nullptr;
    out += (out.empty() ? "" : " -> ") + (nested ? "sequential(" + text + ")" : text);
  }
  return out;
}

}  // namespace sinter
