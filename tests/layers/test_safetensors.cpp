// The file format: files that Python's safetensors wrote, and every way in which one can be broken.
#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

#include "../autograd/values.h"
#include "files.h"
#include <sinter/layers/safetensors.h>
#include <sinter/layers/sequential.h>
#include <sinter/layers/weights.h>
#include <sinter/runtime/pool.h>

namespace sinter {
namespace {

using namespace testing;
using Numbers = std::vector<double>;

// The bytes of a file: the length of the header, the header, the data.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

// What safetensors 0.8.0 (Python, numpy) wrote for {"0.weight": float32 [[1, 2, 3], [-4, 0.5,
// 1.25]], "0.bias": float32 [0.125, -2]} and metadata {"format": "pt"}, byte for byte.
std::string weights_from_python() {
  constexpr unsigned char data[] = {0, 0, 0,  62, 0, 0, 0,   192, 0, 0, 128, 63, 0, 0, 0,   64,
                                    0, 0, 64, 64, 0, 0, 128, 192, 0, 0, 0,   63, 0, 0, 160, 63};
  return file_of(
      R"({"__metadata__":{"format":"pt"},"0.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]}}       )",
      std::string(std::begin(data), std::end(data)));
}

// The same library's file of one tensor of every type.
std::string types_from_python() {
  constexpr unsigned char data[] = {0,   0,   0,   0,   0,   1,   0,  0,   255, 255, 255, 255, 255,
                                    255, 255, 255, 0,   0,   0,   0,  0,   0,   248, 63,  0,   0,
                                    0,   0,   0,   0,   0,   192, 0,  0,   96,  64,  7,   0,   0,
                                    0,   128, 63,  192, 192, 0,   56, 255, 123, 0,   255, 3};
  return file_of(R"({"i64":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                 R"("f64":{"dtype":"F64","shape":[2],"data_offsets":[16,32]},)"
                 R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[32,32]},)"
                 R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[32,36]},)"
                 R"("i32":{"dtype":"I32","shape":[1],"data_offsets":[36,40]},)"
                 R"("bf16":{"dtype":"BF16","shape":[2],"data_offsets":[40,44]},)"
                 R"("f16":{"dtype":"F16","shape":[2,1],"data_offsets":[44,48]},)"
                 R"("u8":{"dtype":"U8","shape":[3],"data_offsets":[48,51]}})",
                 std::string(std::begin(data), std::end(data)));
}

TEST_CASE("a file that Python wrote loads into the model") {
  const TemporaryFolder folder;
  write_bytes(folder / "w", weights_from_python());
  CHECK(std::filesystem::file_size(folder / "w") == 200);
  Sequential model{Linear{3, 2}};
  load_weights(model, folder / "w");
  CHECK(doubles(model.parameters()[0].value()) == Numbers{1, 2, 3, -4, 0.5, 1.25});
  CHECK(doubles(model.parameters()[1].value()) == Numbers{0.125, -2});
  CHECK(read_safetensors(folder / "w").metadata.at("format") == "pt");
}

TEST_CASE("every type, scalars and empty tensors") {
  const TemporaryFolder folder;
  write_bytes(folder / "t", types_from_python());
  CHECK(std::filesystem::file_size(folder / "t") == 523);
  const TensorFile file = read_safetensors(folder / "t");
  const auto check = [&](const char* name, DType dtype, const Shape& shape, const Numbers& values) {
    CAPTURE(name);
    const Tensor& tensor = file.tensors.at(name);
    CHECK(tensor.dtype() == dtype);
    CHECK(tensor.shape() == shape);
    CHECK(doubles(tensor) == values);
  };
  CHECK(file.tensors.size() == 8);
  check("i64", DType::int64, {2}, {1099511627776, -1});
  check("f64", DType::float64, {2}, {1.5, -2});
  check("f16", DType::float16, {2, 1}, {0.5, 65504});
  check("bf16", DType::bfloat16, {2}, {1, -6});
  check("i32", DType::int32, {1}, {7});
  check("u8", DType::uint8, {3}, {0, 255, 3});
  check("scalar", DType::float32, {}, {3.5});
  check("empty", DType::float32, {0, 4}, {});
  write_safetensors(folder / "again", file);
  const TensorFile again = read_safetensors(folder / "again");
  for (const auto& [name, tensor] : file.tensors) {
    CHECK(same(again.tensors.at(name), tensor));
  }
}

TEST_CASE("what is written is laid out as the format wants it") {
  const TemporaryFolder folder;
  TensorFile file;
  file.tensors["b"] = Tensor::from({1.0f, 2.0f}, {2});
  file.tensors["a"] = Tensor::from<std::uint8_t>({9}, {});
  file.metadata["format"] = "pt";
  write_safetensors(folder / "f", file);
  const std::string bytes = read_bytes(folder / "f");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(bytes[8] == '{');
  CHECK(bytes.size() == 8 + length + 9);
  CHECK(bytes.substr(8 + length) == std::string("\x09\x00\x00\x80\x3f\x00\x00\x00\x40", 9));
  CHECK(read_safetensors(folder / "f").metadata == file.metadata);
}

struct Broken {
  const char* name;
  std::string bytes;
  const char* says;
};

std::vector<Broken> broken_files() {
  const std::string good = weights_from_python();
  const std::string f32 = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const auto with = [](const std::string& header, std::size_t bytes) {
    return file_of(header, std::string(bytes, '\0'));
  };
  std::string longer_header = good;
  longer_header[6] = 1;  // 2^48 bytes
  std::string long_header = good;
  long_header[0] = '\xff';
  std::string maximum = good;
  std::fill_n(maximum.begin(), 8, '\xff');
  return {
      {"empty", "", "too short for a header: 0 bytes"},
      {"seven bytes", good.substr(0, 7), "too short for a header: 7 bytes"},
      {"header cut", good.substr(0, 100), "header has 160 bytes, but 92 follow"},
      {"data cut", good.substr(0, 199), "places tensor"},
      {"no data", good.substr(0, 168), "places tensor"},
      {"one byte too many", good + "x", "1 bytes behind its last tensor"},
      {"header of 2^48 bytes", longer_header, "but 192 follow"},
      {"header of 255 bytes", long_header, "header has 255 bytes, but 192 follow"},
      {"header of 2^64 - 1 bytes", maximum, "header has 18446744073709551615 bytes"},
      {"a web page", "<!DOCTYPE html><html><body>not found</body></html>", "header has"},
      {"no JSON", with("{this is no JSON}", 4), "not a JSON object"},
      {"an array", with("[1, 2, 3]", 0), "not a JSON object"},
      {"half an object", with(R"({"a":{)", 0), "not a JSON object"},
      {"deep nesting", with(std::string(100'000, '['), 0), "not a JSON object"},
      {"not UTF-8", with("{\"\xff\xfe\":{" + f32 + "}}", 4), "not a JSON object"},
      {"a number as tensor", with(R"({"a":7})", 0), "without dtype, shape or data_offsets"},
      {"no dtype", with(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "without dtype"},
      {"no shape", with(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "without dtype"},
      {"no offsets", with(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "without dtype"},
      {"three offsets", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 8),
       "without dtype"},
      {"unknown type", with(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4),
       "of type F8_E4M3, which is not supported"},
      {"a type that is a number", with(R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", 4),
       "without dtype"},
      {"negative size", with(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
       "a size that is no count"},
      {"fractional size", with(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4),
       "a size that is no count"},
      {"size of 2^64 - 1",
       with(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4),
       "a size that is no count"},
      {"sizes that overflow",
       with(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
       "impossible shape"},
      {"seven dimensions",
       with(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4),
       "impossible shape"},
      {"a shape for other bytes",
       with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
       "of shape [2] and type float32 4 bytes"},
      {"half an element", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,5]}})", 5),
       "5 bytes"},
      {"2^62 elements in 4 bytes",
       with(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}})", 4),
       "4 bytes"},
      {"offsets backwards", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
       "at bytes 4 to 0 of 4"},
      {"offsets behind the end",
       with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 4),
       "at bytes 4 to 8 of 4"},
      {"offsets that wrap",
       with(R"({"a":{"dtype":"F32","shape":[1],)"
            R"("data_offsets":[18446744073709551612,18446744073709551615]}})",
            4),
       "places tensor"},
      {"negative offset", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4),
       "an offset that is no count"},
      {"overlap",
       with("{\"a\":{" + f32 + R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6),
       "overlap"},
      {"the same bytes twice", with("{\"a\":{" + f32 + "},\"b\":{" + f32 + "}}", 4), "overlap"},
      {"a hole",
       with("{\"a\":{" + f32 + R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12),
       "a hole"},
      {"a hole in front", with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
       "a hole"},
      {"metadata of numbers", with("{\"__metadata__\":{\"a\":1},\"a\":{" + f32 + "}}", 4),
       "metadata \"a\" that is not a string"},
      {"metadata that is a list", with("{\"__metadata__\":[],\"a\":{" + f32 + "}}", 4),
       "metadata that is not a JSON object"}};
}

TEST_CASE("a broken file is an error with the absolute path, and changes nothing") {
  const TemporaryFolder folder;
  const auto path = folder / "broken.safetensors";
  Sequential model{Linear{3, 2}};
  const Numbers weight = doubles(model.parameters()[0].value());
  const Numbers bias = doubles(model.parameters()[1].value());
  const std::size_t before = pool_stats(Device::cpu()).in_use;
  for (const Broken& broken : broken_files()) {
    CAPTURE(broken.name);
    write_bytes(path, broken.bytes);
    reset_peak(Device::cpu());
    check_error([&] { read_safetensors(path); }, {"safetensors file", path.string(), broken.says});
    check_error([&] { load_weights(model, path); }, {path.string()});
    CHECK(pool_stats(Device::cpu()).in_use == before);
    // Nothing larger than the file is taken because the file says so.
    CHECK(pool_stats(Device::cpu()).peak_in_use <= before + broken.bytes.size() + 1024);
    CHECK(doubles(model.parameters()[0].value()) == weight);
    CHECK(doubles(model.parameters()[1].value()) == bias);
  }
}

// Each of 200 tensors claims the whole megabyte: 200 times the file, if one were read at a time.
TEST_CASE("tensors that share bytes are refused before memory is taken for any") {
  const TemporaryFolder folder;
  std::string header = "{";
  for (int i = 0; i < 200; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[1048576],"data_offsets":[0,1048576]})";
  }
  write_bytes(folder / "shared", file_of(header + "}", std::string(1 << 20, '\0')));
  reset_peak(Device::cpu());
  const std::size_t before = pool_stats(Device::cpu()).peak_in_use;
  check_error([&] { read_safetensors(folder / "shared"); },
              {(folder / "shared").string(), "overlap"});
  CHECK(pool_stats(Device::cpu()).peak_in_use == before);
}

TEST_CASE("a file cut short anywhere is an error") {
  const TemporaryFolder folder;
  const std::string good = weights_from_python();
  for (std::size_t left = 0; left < good.size(); ++left) {
    CAPTURE(left);
    write_bytes(folder / "cut", good.substr(0, left));
    check_error([&] { read_safetensors(folder / "cut"); }, {(folder / "cut").string()});
  }
}

TEST_CASE("a header that runs on is answered with a sentence, not with itself") {
  const TemporaryFolder folder;
  std::string sizes = "1";
  for (int i = 1; i < 100'000; ++i) {
    sizes += ",1";
  }
  write_bytes(folder / "long",
              file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1],"shape":[)" + sizes + "]}}", "1"));
  const std::string message = error_of([&] { read_safetensors(folder / "long"); });
  CHECK(contains(message, "100000 dimensions, at most 6"));
  CHECK(message.size() < 500);
}

TEST_CASE("every bit of the header flipped: an error, or another model's names, never a crash") {
  const TemporaryFolder folder;
  const auto path = folder / "flipped";
  const std::string good = weights_from_python();
  int refused = 0;
  int read = 0;
  for (std::size_t bit = 0; bit < 168 * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    write_bytes(path, bytes);
    const std::string message = error_of([&] { read_safetensors(path); });
    if (message.empty()) {
      ++read;
    } else {
      ++refused;
      if (!contains(message, path.string())) {
        FAIL_CHECK("bit ", bit, ": no path in ", message);
      }
    }
  }
  CHECK(refused > 1000);
  CHECK(read > 50);  // a letter of a name or of the metadata
}

TEST_CASE("names and metadata that are not UTF-8, and undefined tensors, cannot be written") {
  const TemporaryFolder folder;
  const auto path = folder / "out";
  TensorFile name;
  name.tensors["\xff"] = Tensor::zeros({1});
  check_error([&] { write_safetensors(path, name); }, {"cannot write", path.string(), "UTF-8"});
  TensorFile metadata;
  metadata.metadata["format"] = "\xff";
  check_error([&] { write_safetensors(path, metadata); }, {"cannot write", path.string(), "UTF-8"});
  TensorFile undefined;
  undefined.tensors["a"] = Tensor{};
  check_error([&] { write_safetensors(path, undefined); },
              {"cannot write", path.string(), "\"a\" is undefined"});
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace sinter
