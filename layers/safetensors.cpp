#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <sinter/layers/safetensors.h>
#include <sinter/runtime/durable_file.h>
#include <sinter/runtime/paths.h>

namespace sinter {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian, and bytes are copied as they are");

using Json = nlohmann::json;

constexpr std::uint64_t largest_header = 100'000'000;  // the format's own limit

struct TypeName {
  DType dtype;
  const char* name;
};
constexpr TypeName type_names[] = {{DType::float64, "F64"}, {DType::float32, "F32"},
                                   {DType::float16, "F16"}, {DType::bfloat16, "BF16"},
                                   {DType::int64, "I64"},   {DType::int32, "I32"},
                                   {DType::uint8, "U8"}};

const char* type_name(DType dtype) {
  for (const TypeName& entry : type_names) {
    if (entry.dtype == dtype) {
      return entry.name;
    }
  }
  return "?";
}

class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path)
      : path_(full_path(path)), in_(path_, std::ios::binary) {
    require(in_.good(), "cannot be opened");
    std::error_code failure;
    size_ = std::filesystem::file_size(path_, failure);
    require(!failure, "is not a regular file");
  }

  TensorFile read() {
    read_header();
    TensorFile out;
    std::vector<Place> places;
    for (const auto& [name, entry] : header_.items()) {
      if (name == "__metadata__") {
        read_metadata(entry, out);
      } else {
        places.push_back(read_place(name, entry));
      }
    }
    // Before memory is taken: tensors that share bytes could ask for any multiple of the file.
    check_layout(places);
    for (const Place& place : places) {
      out.tensors[place.name] = read_tensor(place);
    }
    return out;
  }

 private:
  // What the header says of a tensor.
  struct Place {
    std::string name;
    Shape shape;
    DType dtype;
    std::uint64_t from;
    std::uint64_t to;
  };

  template <class... Parts>
  void require(bool condition, const Parts&... what) const {
    check(condition, "safetensors file ", path_.string(), " ", what...);
  }

  void read_header() {
    require(size_ >= 8, "is too short for a header: ", size_, " bytes");
    std::uint64_t length = 0;
    in_.read(reinterpret_cast<char*>(&length), 8);
    require(length <= largest_header && length <= size_ - 8, "says that its header has ", length,
            " bytes, but ", size_ - 8, " follow");
    std::string text(length, '\0');
    in_.read(text.data(), static_cast<std::streamsize>(length));
    require(in_.good(), "could not be read");
    header_ = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    require(header_.is_object(), "has a header that is not a JSON object");
    begin_ = 8 + length;
  }

  void read_metadata(const Json& entry, TensorFile& out) const {
    require(entry.is_object(), "has metadata that is not a JSON object");
    for (const auto& [key, value] : entry.items()) {
      require(value.is_string(), "has metadata \"", key, "\" that is not a string");
      out.metadata[key] = value.get<std::string>();
    }
  }

  Place read_place(const std::string& name, const Json& entry) const {
    const bool complete = entry.is_object() && entry.contains("dtype") && entry.contains("shape") &&
                          entry.contains("data_offsets") && entry["dtype"].is_string() &&
                          entry["shape"].is_array() && entry["data_offsets"].is_array() &&
                          entry["data_offsets"].size() == 2;
    require(complete, "describes tensor \"", name, "\" without dtype, shape or data_offsets");
    const Shape shape = read_shape(name, entry["shape"]);
    const DType dtype = read_dtype(name, entry["dtype"].get<std::string>());
    for (const Json& offset : entry["data_offsets"]) {
      require(offset.is_number_unsigned(), "gives tensor \"", name,
              "\" an offset that is no count");
    }
    const auto from = entry["data_offsets"][0].get<std::uint64_t>();
    const auto to = entry["data_offsets"][1].get<std::uint64_t>();
    require(from <= to && to <= size_ - begin_, "places tensor \"", name, "\" at bytes ", from,
            " to ", to, " of ", size_ - begin_);
    const std::uint64_t elements = (to - from) / size_of(dtype);
    require(
        (to - from) % size_of(dtype) == 0 && elements == static_cast<std::uint64_t>(shape.numel()),
        "gives tensor \"", name, "\" of shape ", shape, " and type ", dtype, " ", to - from,
        " bytes");
    return {name, shape, dtype, from, to};
  }

  Tensor read_tensor(const Place& place) {
    Tensor tensor = Tensor::empty(place.shape, place.dtype);
    in_.seekg(static_cast<std::streamoff>(begin_ + place.from));
    in_.read(reinterpret_cast<char*>(tensor.address()),
             static_cast<std::streamsize>(place.to - place.from));
    require(in_.good(), "could not be read at tensor \"", place.name, "\"");
    return tensor;
  }

  Shape read_shape(const std::string& name, const Json& list) const {
    require(list.size() <= Shape::max_rank, "gives tensor \"", name,
            "\" an impossible shape: it has ", list.size(), " dimensions, at most ",
            Shape::max_rank, " are supported");
    std::vector<std::int64_t> sizes;
    for (const Json& size : list) {
      require(size.is_number_unsigned() && size.get<std::uint64_t>() <= INT64_MAX,
              "gives tensor \"", name, "\" a size that is no count");
      sizes.push_back(size.get<std::int64_t>());
    }
    try {
      return Shape(std::span<const std::int64_t>(sizes));
    } catch (const Error& error) {
      throw Error(text("safetensors file ", path_.string(), " gives tensor \"", name,
                       "\" an impossible shape: ", error.what()));
    }
  }

  DType read_dtype(const std::string& name, const std::string& word) const {
    for (const TypeName& entry : type_names) {
      if (word == entry.name) {
        return entry.dtype;
      }
    }
    throw Error(text("safetensors file ", path_.string(), " holds tensor \"", name, "\" of type ",
                     word, ", which is not supported"));
  }

  // The format wants the bytes covered once: no holes, no overlaps, nothing behind.
  void check_layout(std::vector<Place>& places) const {
    std::ranges::sort(places, {},
                      [](const Place& place) { return std::pair(place.from, place.to); });
    std::uint64_t at = 0;
    for (const Place& place : places) {
      require(place.from == at, "has tensors that overlap, or a hole, at byte ", place.from,
              " of its data");
      at = place.to;
    }
    require(at == size_ - begin_, "has ", size_ - begin_ - at, " bytes behind its last tensor");
  }

  std::filesystem::path path_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
  std::uint64_t begin_ = 0;
  Json header_;
};

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) { return FileReader(path).read(); }

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  DurableFile out(path);
  const std::string place = out.path().string();
  Json header = Json::object();
  if (!file.metadata.empty()) {
    header["__metadata__"] = file.metadata;
  }
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : file.tensors) {
    check(name != "__metadata__", "cannot write ", place, ": no tensor can be named __metadata__");
    check(tensor.defined(), "cannot write ", place, ": tensor \"", name, "\" is undefined");
    const std::uint64_t end = at + tensor.bytes();
    const auto sizes = tensor.shape().sizes();
    header[name] = {{"dtype", type_name(tensor.dtype())},
                    {"shape", std::vector<std::int64_t>(sizes.begin(), sizes.end())},
                    {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& failure) {
    throw Error(sinter::text("cannot write ", place, ": a name or metadata is not UTF-8 (",
                             failure.what(), ")"));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts aligned
  const std::uint64_t length = text.size();
  out.write(&length, sizeof length);
  out.write(text.data(), text.size());
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor host = tensor.detach().to(Device::cpu());
    out.write(host.address(), host.bytes());
  }
  out.commit();
}

}  // namespace sinter
