#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <sinter/layers/safetensors.h>
#include <sinter/layers/weights.h>
#include <sinter/runtime/paths.h>
#include <sinter/training/checkpoint.h>

namespace sinter {
namespace {

constexpr int version = 1;

// A part's state on its way to a file or back; names are "part.name".
class Visitor : public StateVisitor {
 public:
  Visitor(TensorFile& file, std::string source) : file_(file), source_(std::move(source)) {}
  void visit(const std::string& name, Stateful& part) {
    prefix_ = name + ".";
    part.visit_state(*this);
  }

 protected:
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  TensorFile& file_;
  std::string source_;

 private:
  std::string prefix_;
};

class Writer : public Visitor {
 public:
  using Visitor::Visitor;
  void number(std::string_view name, std::int64_t& value, std::int64_t, std::int64_t) override {
    put(name, Tensor::from<std::int64_t>({value}, {}));
  }
  void number(std::string_view name, double& value, double, double) override {
    put(name, Tensor::from<double>({value}, {}));
  }
  void rows(std::string_view name, std::vector<double>& values, std::int64_t columns) override {
    put(name, Tensor::from(values, {static_cast<std::int64_t>(values.size()) / columns, columns}));
  }
  void tensor(std::string_view name, const Tensor& values) override { put(name, values.detach()); }

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
  template <class... Parts>
  void require(bool condition, std::string_view name, const Parts&... what) const {
    check(condition, "checkpoint ", source_, ": ", full(name), what...);
  }
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
    const T value = found.values<T>()[0];
    const std::string expected = least == most ? text(least) : text(least, " to ", most);
    require(value >= least && value <= most, name, " is ", value, ", expected ", expected);
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

bool is_finite(const Tensor& values) {
  if (!is_floating(values.dtype())) {
    return true;
  }
  const auto finite = [](auto value) { return std::isfinite(value); };
  if (values.dtype() == DType::float64) {
    return std::ranges::all_of(values.values<double>(), finite);
  }
  const Tensor wide = values.to(DType::float32);
  return std::ranges::all_of(wide.values<float>(), finite);
}

void check_finite(const std::map<std::string, Tensor>& weights, const std::string& what) {
  for (const auto& [name, values] : weights) {
    if (!is_finite(values)) {
      throw NonFiniteError(text(what, ": ", name, " of the model holds a NaN or an infinity"));
    }
  }
}

// Fletcher's sum of 64-bit words ("An arithmetic checksum for serial transmissions", 1982), at the
// speed of memory.
class Checksum {
 public:
  void add(const void* bytes, std::size_t count) {
    const char* at = static_cast<const char*>(bytes);
    std::uint64_t word = 0;
    for (; count >= sizeof word; count -= sizeof word, at += sizeof word) {
      std::memcpy(&word, at, sizeof word);
      add(word);
    }
    if (count > 0) {
      word = 0;
      std::memcpy(&word, at, count);
      add(word);
    }
  }
  std::string str() const { return text(sum_, " ", sum_of_sums_); }

 private:
  void add(std::uint64_t word) {
    sum_ += word;
    sum_of_sums_ += sum_;
  }

  std::uint64_t sum_ = 0, sum_of_sums_ = 0;
};

// Over all names, texts and bytes.
std::string checksum(const TensorFile& file) {
  Checksum sum;
  for (const auto& [key, value] : file.metadata) {
    if (key != "checksum") {
      const std::string line = key + "=" + value + "\n";
      sum.add(line.data(), line.size());
    }
  }
  for (const auto& [name, tensor] : file.tensors) {
    const std::string line = text(name, " ", tensor.dtype(), " ", tensor.shape(), "\n");
    sum.add(line.data(), line.size());
    sum.add(tensor.address(), tensor.bytes());
  }
  return sum.str();
}

std::string metadata(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

// A file of this version whose bytes are those that were written.
TensorFile read_checkpoint(const std::filesystem::path& path, const std::string& name) {
  TensorFile file = read_safetensors(path);
  check(is_checkpoint(file), name,
        " is a safetensors file and no checkpoint; load_weights() reads weights");
  const std::string written = metadata(file, "version");
  int number = 0;
  const auto [end, failure] =
      std::from_chars(written.data(), written.data() + written.size(), number);
  check(failure == std::errc{} && end == written.data() + written.size() && number >= 1,
        "checkpoint ", name, " has no version, but \"", written, "\"");
  check(number <= version, "checkpoint ", name, " is of version ", number,
        " of the format, and this sinter reads up to ", version, "; a newer one wrote it");
  check(metadata(file, "checksum") == checksum(file), "checkpoint ", name,
        " is damaged: its checksum differs");
  return file;
}

constexpr std::string_view part_prefix = "part ";

void check_parts(const TensorFile& file, const std::string& name, const AllParts& parts) {
  for (const auto& [key, written] : file.metadata) {
    if (key.starts_with(part_prefix)) {
      check(parts.get().contains(key.substr(part_prefix.size())), "checkpoint ", name,
            " holds the state of \"", key.substr(part_prefix.size()),
            "\", which this run does not have");
    }
  }
  for (const auto& [part, state] : parts.get()) {
    const auto found = file.metadata.find(std::string(part_prefix) + part);
    check(found != file.metadata.end(), "checkpoint ", name, " holds no state of \"", part, "\"");
    check(found->second == state->text(), "checkpoint ", name, ": \"", part, "\" was ",
          found->second, ", and is ", state->text());
  }
}

}  // namespace

TensorFile checkpoint_of(Module& model, const CheckpointParts& parts, const std::string& what) {
  const AllParts all(model, parts);
  TensorFile file;
  for (const auto& [name, values] : state_dict(model)) {
    file.tensors[std::string(model_prefix) + name] = values;
  }
  Writer writer(file, what);
  all.visit(writer);
  for (auto& [name, tensor] : file.tensors) {
    tensor = tensor.device() == Device::cpu() ? tensor.clone() : tensor.to(Device::cpu());
  }
  check_finite(model_tensors(file), what);
  std::string frozen;
  for (const NamedParameter& parameter : model.parameters()) {
    frozen += parameter.state->trainable ? "" : parameter.name + "\n";
  }
  file.metadata = {{"format", std::string(checkpoint_format)},
                   {"version", text(version)},
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
  const std::string name = full_path(path).string();
  TensorFile file = read_checkpoint(path, name);
  check(metadata(file, "model") == model.text(), "checkpoint ", name, " is for the model ",
        metadata(file, "model"), ", and this one is ", model.text());
  const auto weights = model_tensors(file);
  check_state_dict(model, weights, "checkpoint " + name);
  check_finite(weights, "checkpoint " + name);
  check_parts(file, name, all);
  Checker checker(file, name);
  all.visit(checker);
  for (const auto& [tensor, values] : file.tensors) {
    check(tensor.starts_with(model_prefix) || checker.seen().contains(tensor), "checkpoint ", name,
          " holds ", tensor, ", which no part of this run has");
  }
  // From here on nothing is wrong with it.
  const std::string frozen = "\n" + metadata(file, "frozen");
  for (const NamedParameter& parameter : model.parameters()) {
    parameter.set_trainable(frozen.find("\n" + parameter.name + "\n") == std::string::npos);
    if (const auto& leaf = parameter.value().leaf()) {
      leaf->drop();
    }
  }
  load_state_dict(model, weights, "checkpoint " + name);
  Loader loader(file, name);
  all.visit(loader);
}

}  // namespace sinter
