#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include <sinter/layers/tensor_file.h>
#include <sinter/runtime/paths.h>

namespace sinter {
namespace {

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

bool is_checkpoint(const TensorFile& file) {
  return metadata_value(file, "format") == checkpoint_format;
}

void check_version(const TensorFile& file, const std::string& source) {
  const std::string version = metadata_value(file, "version");
  const char* const last = version.data() + version.size();
  unsigned number = 0;  // takes no sign
  const auto [end, failure] = std::from_chars(version.data(), last, number);
  const bool is_larger = failure == std::errc::result_out_of_range;
  check(end == last && (is_larger || number >= 1), source, " has the version \"", version,
        "\", expected a whole number of at least 1; it is damaged");
  check(!is_larger && number <= newest_version, source, " is of version ", version,
        ", and this sinter reads up to ", newest_version, "; read it with a newer one");
}

struct Read {
  TensorFile file;
  std::string source;
};

// Of other programs' files nothing is known.
Read read_checked(const std::filesystem::path& path) {
  TensorFile file = read_safetensors(path);
  const bool has_sum = is_checkpoint(file);
  std::string source = (has_sum ? "checkpoint " : "weights file ") + full_path(path).string();
  if (has_sum || metadata_value(file, "format") == weights_format) {
    check_version(file, source);
  }
  check(!has_sum || metadata_value(file, "checksum") == checksum(file), source,
        " is damaged: its checksum differs; take an earlier one");
  return {std::move(file), std::move(source)};
}

template <class T>
bool has_any(Refused numbers, const Tensor& values) {
  return std::ranges::any_of(values.values<T>(), [numbers](T value) {
    return numbers == Refused::nan ? std::isnan(value) : !std::isfinite(value);
  });
}

}  // namespace

std::string metadata_value(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

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

std::map<std::string, Tensor> model_tensors(const TensorFile& checkpoint) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(model_prefix)) {
      out[name.substr(model_prefix.size())] = tensor;
    }
  }
  return out;
}

const std::string* first_with(Refused numbers, const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype() == DType::float64
            ? has_any<double>(numbers, tensor)
            : is_floating(tensor.dtype()) && has_any<float>(numbers, tensor.to(DType::float32))) {
      return &name;
    }
  }
  return nullptr;
}

TensorFile read_checkpoint(const std::filesystem::path& path) {
  Read read = read_checked(path);
  check(is_checkpoint(read.file), read.source, " is no checkpoint; load_weights() reads weights");
  return std::move(read.file);
}

StoredModel read_model(const std::filesystem::path& path) {
  const auto [file, source] = read_checked(path);
  StoredModel out{source, metadata_value(file, "model"),
                  is_checkpoint(file) ? model_tensors(file) : file.tensors};
  const std::string* const found = first_with(Refused::nan, out.tensors);
  check(found == nullptr, source, " holds a NaN in ", found == nullptr ? "" : *found,
        ": the run that wrote it had diverged; take an earlier file");
  return out;
}

}  // namespace sinter
