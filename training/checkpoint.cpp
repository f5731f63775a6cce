#include <bit>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <sinter/layers/tensor_file.h>
#include <sinter/layers/weights.h>
#include <sinter/runtime/paths.h>
#include <sinter/training/checkpoint.h>

namespace sinter {
namespace {

// A part's state on its way to a file or back; names are "part.name". Sentences begin with
// `source`.
class Visitor : public StateVisitor {
 public:
  Visitor(TensorFile& file, std::string source) : file_(file), source_(std::move(source)) {}
  void visit(const std::string& name, Stateful& part) {
    prefix_ = name + ".";
    part.visit_state(*this);
  }

 protected:
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }
  template <class... Parts>
  void require(bool condition, std::string_view name, const Parts&... what) const {
    check(condition, source_, ": ", full(name), what...);
  }
  template <class T>
  void require_range(std::string_view name, T value, T least, T most) const {
    if (!(value >= least && value <= most)) {
      require(false, name, " is ", value, ", expected ",
              least == most ? text(least) : text(least, " to ", most));
    }
  }

  TensorFile& file_;
  std::string source_;

 private:
  std::string prefix_;
};

Tensor cpu_copy(const Tensor& tensor) {
  return tensor.device() == Device::cpu() ? tensor.clone() : tensor.to(Device::cpu());
}

// Writes no number that Checker would refuse.
class Writer : public Visitor {
 public:
  using Visitor::Visitor;
  void number(std::string_view name, std::int64_t& value, std::int64_t least,
              std::int64_t most) override {
    require_range(name, value, least, most);
    put(name, Tensor::from<std::int64_t>({value}, {}));
  }
  void number(std::string_view name, double& value, double least, double most) override {
    require_range(name, value, least, most);
    put(name, Tensor::from<double>({value}, {}));
  }
  void rows(std::string_view name, std::vector<double>& values, std::int64_t columns) override {
    put(name, Tensor::from(values, {static_cast<std::int64_t>(values.size()) / columns, columns}));
  }
  void tensor(std::string_view name, const Tensor& values) override {
    put(name, cpu_copy(values.detach()));
  }

 private:
  void put(std::string_view name, const Tensor& tensor) {
    check(file_.tensors.emplace(full(name), tensor).second, source_, ": two things are named ",
          full(name));
  }
};

// Looks at everything and changes nothing.
class Checker : public Visitor {
 public:
  using Visitor::Visitor;
  void number(std::string_view name, std::int64_t& value, std::int64_t least,
              std::int64_t most) override {
    in_range<std::int64_t>(name, value, least, most);
  }
  void number(std::string_view name, double& value, double least, double most) override {
    in_range<double>(name, value, least, most);
  }
  void rows(std::string_view name, std::vector<double>&, std::int64_t columns) override {
    const Tensor& found = find(name, DType::float64);
    require(found.rank() == 2 && found.size(1) == columns, name, " has shape ", found.shape(),
            ", expected rows of ", columns);
  }
  void tensor(std::string_view name, const Tensor& values) override {
    const Tensor& found = find(name, values.dtype());
    require(found.shape() == values.shape(), name, " has shape ", found.shape(), ", expected ",
            values.shape());
  }
  const std::set<std::string>& seen() const { return seen_; }

 private:
  const Tensor& find(std::string_view name, DType dtype) {
    const auto found = file_.tensors.find(full(name));
    require(found != file_.tensors.end(), name, " is missing");
    require(found->second.dtype() == dtype, name, " is of type ", found->second.dtype(),
            ", expected ", dtype);
    seen_.insert(found->first);
    return found->second;
  }
  template <class T>
  void in_range(std::string_view name, const T&, T least, T most) {
    const Tensor& found = find(name, dtype_of<T>);
    require(found.rank() == 0, name, " has shape ", found.shape(), ", expected one number");
    require_range(name, found.values<T>()[0], least, most);
  }

  std::set<std::string> seen_;
};

// After Checker found nothing wrong.
class Loader : public Visitor {
 public:
  using Visitor::Visitor;
  void number(std::string_view name, std::int64_t& value, std::int64_t, std::int64_t) override {
    value = at(name).values<std::int64_t>()[0];
  }
  void number(std::string_view name, double& value, double, double) override {
    value = at(name).values<double>()[0];
  }
  void rows(std::string_view name, std::vector<double>& values, std::int64_t) override {
    values = at(name).to_vector<double>();
  }
  void tensor(std::string_view name, const Tensor& values) override {
    Tensor to = values.detach();
    to.copy_from(at(name));
  }

 private:
  const Tensor& at(std::string_view name) { return file_.tensors.at(full(name)); }
};

// The random numbers of a model, or of a part of it that was given some of its own.
class GeneratorState : public Stateful {
 public:
  explicit GeneratorState(Generator& generator) : generator_(generator) {}
  void visit_state(StateVisitor& v) override {
    constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
    auto seed = std::bit_cast<std::int64_t>(generator_.seed());
    std::int64_t step = generator_.step(), call = generator_.next_call(),
                 parameter = generator_.next_parameter();
    v.number("seed", seed);
    v.number("step", step, 0, most);
    v.number("next_call", call, 0, most);
    v.number("next_parameter", parameter, 0, most);
    generator_ = Generator(std::bit_cast<std::uint64_t>(seed));
    generator_.set_state(static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(call));
    generator_.set_next_parameter(static_cast<std::uint32_t>(parameter));
  }

 private:
  Generator& generator_;
};

// The caller's parts, and the model's generators, which no part can be named as.
class AllParts {
 public:
  AllParts(Module& model, const CheckpointParts& parts) {
    for (const auto& [name, part] : parts) {
      check(!name.empty() && name.find('.') == std::string::npos && name != "model" &&
                !name.starts_with("generator"),
            "checkpoint: a part cannot be named \"", name, "\"");
      check(part != nullptr, "checkpoint: the part \"", name, "\" is null");
    }
    parts_ = parts;
    model.generator();  // so that all of it has one
    std::set<const Generator*> known;
    detail::for_each_module(model, [&](const std::string&, Module& module) {
      Generator& generator = *module.generator();
      if (known.insert(&generator).second) {
        generators_.push_back(std::make_unique<GeneratorState>(generator));
        parts_[text("generator", generators_.size() - 1)] = generators_.back().get();
      }
    });
  }
  const CheckpointParts& get() const { return parts_; }
  void visit(Visitor& visitor) const {
    for (const auto& [name, part] : parts_) {
      visitor.visit(name, *part);
    }
  }

 private:
  CheckpointParts parts_;
  std::vector<std::unique_ptr<GeneratorState>> generators_;
};

void check_finite(const std::map<std::string, Tensor>& weights, const std::string& what) {
  if (const std::string* const name = first_with(Refused::nan_and_infinity, weights)) {
    throw NonFiniteError(text(what, ": ", *name, " of the model holds a NaN or an infinity"));
  }
}

constexpr std::string_view part_prefix = "part ";

void check_parts(const TensorFile& file, const std::string& source, const AllParts& parts) {
  for (const auto& [key, written] : file.metadata) {
    if (key.starts_with(part_prefix)) {
      check(parts.get().contains(key.substr(part_prefix.size())), source, " holds the state of \"",
            key.substr(part_prefix.size()), "\", which this run does not have");
    }
  }
  for (const auto& [part, state] : parts.get()) {
    const auto found = file.metadata.find(std::string(part_prefix) + part);
    check(found != file.metadata.end(), source, " holds no state of \"", part, "\"");
    check(found->second == state->text(), source, ": \"", part, "\" was ", found->second,
          ", and is ", state->text());
  }
}

}  // namespace

TensorFile checkpoint_of(Module& model, const CheckpointParts& parts, const std::string& what) {
  const AllParts all(model, parts);
  TensorFile file;
  for (const auto& [name, values] : state_dict(model)) {
    file.tensors[std::string(model_prefix) + name] = cpu_copy(values);
  }
  check_finite(model_tensors(file), what);
  Writer writer(file, what);
  all.visit(writer);
  std::string frozen;
  for (const NamedParameter& parameter : model.parameters()) {
    frozen += parameter.state->trainable ? "" : parameter.name + "\n";
  }
  file.metadata = {{"format", std::string(checkpoint_format)},
                   {"version", text(newest_version)},
                   {"model", model.text()},
                   {"frozen", frozen}};
  for (const auto& [name, part] : all.get()) {
    file.metadata[std::string(part_prefix) + name] = part->text();
  }
  file.metadata["checksum"] = checksum(file);
  return file;
}

void save_checkpoint(const std::filesystem::path& path, Module& model,
                     const CheckpointParts& parts) {
  write_safetensors(
      path, checkpoint_of(model, parts, "cannot write checkpoint " + full_path(path).string()));
}

void load_checkpoint(const std::filesystem::path& path, Module& model,
                     const CheckpointParts& parts) {
  const AllParts all(model, parts);
  TensorFile file = read_checkpoint(path);
  const std::string source = "checkpoint " + full_path(path).string();
  check(metadata_value(file, "model") == model.text(), source, " is for the model ",
        metadata_value(file, "model"), ", and this one is ", model.text());
  const auto weights = model_tensors(file);
  check_state_dict(model, weights, source);
  check_finite(weights, source);
  check_parts(file, source, all);
  Checker checker(file, source);
  all.visit(checker);
  for (const auto& [tensor, values] : file.tensors) {
    check(tensor.starts_with(model_prefix) || checker.seen().contains(tensor), source, " holds ",
          tensor, ", which no part of this run has");
  }
  // From here on nothing is wrong with it.
  const std::string frozen = "\n" + metadata_value(file, "frozen");
  for (const NamedParameter& parameter : model.parameters()) {
    parameter.set_trainable(frozen.find("\n" + parameter.name + "\n") == std::string::npos);
    if (const auto& leaf = parameter.value().leaf()) {
      leaf->drop();
    }
  }
  load_state_dict(model, weights, source);
  Loader loader(file, source);
  all.visit(loader);
}

}  // namespace sinter
