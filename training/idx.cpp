#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <zlib.h>

#include <sinter/runtime/paths.h>
#include <sinter/training/idx.h>

namespace sinter {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

// The bytes of a file, unpacked where it is gzip.
class ByteSource {
 public:
  explicit ByteSource(const std::filesystem::path& path);
  ~ByteSource() {
    if (packed_) {
      inflateEnd(&stream_);
    }
  }
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills `out` as far as the file goes and returns how far that is. Fewer bytes than asked for
  // mean the end, which gzip reaches only with a checksum that fits.
  std::size_t read(std::span<std::uint8_t> out);
  const std::string& name() const { return name_; }

 private:
  void refill();
  std::size_t copy(std::span<std::uint8_t> out);
  std::size_t unpack(std::span<std::uint8_t> out);

  std::string name_;
  std::ifstream file_;
  std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(std::size_t{1} << 16);
  bool packed_ = false;
  bool at_member_end_ = false;
  int members_ = 1;    // a gzip file may be several, one after the other
  z_stream stream_{};  // next_in, avail_in: what of buffer_ is not used yet, packed or not
};

ByteSource::ByteSource(const std::filesystem::path& path) : name_(full_path(path).string()) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  check(status.type() != std::filesystem::file_type::not_found, "read_idx: ", name_,
        " does not exist");
  check(!std::filesystem::is_directory(status), "read_idx: ", name_,
        " is a folder, expected an IDX file");
  file_.open(path, std::ios::binary);
  check(file_.is_open(), "read_idx: ", name_, " cannot be opened: ", std::strerror(errno));
  refill();
  if (stream_.avail_in >= 2 && buffer_[0] == 0x1f && buffer_[1] == 0x8b) {
    constexpr int gzip_only = 15 + 16;
    check(inflateInit2(&stream_, gzip_only) == Z_OK, "read_idx: ", name_,
          ": zlib has no memory to unpack it");
    packed_ = true;
  }
}

void ByteSource::refill() {
  file_.read(reinterpret_cast<char*>(buffer_.data()), static_cast<std::streamsize>(buffer_.size()));
  check(!file_.bad(), "read_idx: ", name_, " cannot be read: ", std::strerror(errno));
  stream_.next_in = buffer_.data();
  stream_.avail_in = static_cast<uInt>(file_.gcount());
}

std::size_t ByteSource::read(std::span<std::uint8_t> out) {
  return packed_ ? unpack(out) : copy(out);
}

std::size_t ByteSource::copy(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    if (stream_.avail_in == 0) {
      refill();
      if (stream_.avail_in == 0) {
        break;
      }
    }
    const std::size_t n = std::min<std::size_t>(out.size() - done, stream_.avail_in);
    std::memcpy(out.data() + done, stream_.next_in, n);
    stream_.next_in += n;
    stream_.avail_in -= static_cast<uInt>(n);
    done += n;
  }
  return done;
}

std::size_t ByteSource::unpack(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    if (stream_.avail_in == 0) {
      refill();
    }
    if (at_member_end_) {
      if (stream_.avail_in == 0) {
        break;
      }
      inflateReset(&stream_);
      at_member_end_ = false;
      ++members_;
    }
    const std::size_t room = std::min(out.size() - done, chunk_bytes);
    stream_.next_out = out.data() + done;
    stream_.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    done += room - stream_.avail_out;
    check(code == Z_OK || code == Z_STREAM_END || members_ == 1 || stream_.total_out > 0,
          "read_idx: ", name_, " has something else after the end of its gzip data");
    // With room to write and nothing to read, no progress means that the file ended too early.
    check(code != Z_BUF_ERROR, "read_idx: ", name_,
          " is a gzip file cut short: it ends before its checksum; download or copy it again");
    check(code == Z_OK || code == Z_STREAM_END, "read_idx: ", name_, " is a damaged gzip file (",
          stream_.msg != nullptr ? stream_.msg : zError(code), "); download or copy it again");
    at_member_end_ = code == Z_STREAM_END;
  }
  return done;
}

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out += (out.empty() ? "" : " ");
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

const char* element_type(std::uint8_t code) {
  switch (code) {
    case 0x08:
      return "unsigned byte";
    case 0x09:
      return "signed byte";
    case 0x0b:
      return "int16";
    case 0x0c:
      return "int32";
    case 0x0d:
      return "float32";
    case 0x0e:
      return "float64";
    default:
      return nullptr;
  }
}

bool starts_like_a_web_page(std::span<const std::uint8_t> start) {
  constexpr std::string_view skipped = " \t\r\n\xef\xbb\xbf";  // white space, UTF-8's mark
  const auto first = std::ranges::find_if(start, [&](std::uint8_t byte) {
    return skipped.find(static_cast<char>(byte)) == std::string_view::npos;
  });
  return first != start.end() && *first == '<';
}

// The rank that the first four bytes tell, once they are what they should be.
int checked_rank(const ByteSource& source, std::span<const std::uint8_t> magic, int expected) {
  const std::string& name = source.name();
  check(!starts_like_a_web_page(magic), "read_idx: ", name,
        " looks like a web page (starts with '<'), the download failed?");
  check(magic.size() == 4, "read_idx: ", name, " holds ", magic.size(),
        " bytes, expected an IDX header of at least 8");
  check(!(magic[2] == 0 && magic[3] == 0 && element_type(magic[1]) != nullptr && magic[0] > 0),
        "read_idx: ", name, ": the header is byte-swapped (little-endian): it starts with ",
        hex(magic), ", expected 00 00 08 and the number of dimensions");
  check(magic[0] == 0 && magic[1] == 0 && element_type(magic[2]) != nullptr, "read_idx: ", name,
        " is not an IDX file: it starts with ", hex(magic),
        ", expected 00 00 08 and the number of dimensions");
  check(magic[2] == 0x08, "read_idx: ", name, " has elements of type ", element_type(magic[2]),
        " (code ", hex(magic.subspan(2, 1)), "), expected unsigned byte (08)");
  const int rank = magic[3];
  check(expected == 0 || rank == expected, "read_idx: ", name, " has ", rank,
        rank == 1 ? " dimension" : " dimensions", ", expected ", expected,
        "; are image and label files exchanged?");
  check(rank >= 1 && rank <= 4, "read_idx: ", name, " has ", rank, " dimensions, expected 1 to 4");
  return rank;
}

// Sizes whose product is positive and fits 63 bits.
Shape checked_shape(ByteSource& source, int rank) {
  std::array<std::uint8_t, 16> bytes{};
  const auto wanted = std::span(bytes).first(static_cast<std::size_t>(4 * rank));
  const std::size_t got = source.read(wanted);
  check(got == wanted.size(), "read_idx: ", source.name(), ": the header of ", rank,
        " dimensions takes ", 4 + wanted.size(), " bytes, found ", 4 + got);
  std::array<std::int64_t, 4> sizes{};
  std::string product;
  for (int i = 0; i < rank; ++i) {
    const std::uint8_t* at = bytes.data() + 4 * i;
    sizes[static_cast<std::size_t>(i)] =
        std::int64_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3];
    product += (i == 0 ? "" : " x ") + std::to_string(sizes[static_cast<std::size_t>(i)]);
  }
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t size = sizes[static_cast<std::size_t>(i)];
    check(size > 0, "read_idx: ", source.name(), ": the header says ", product,
          ", expected sizes of at least 1; dimension ", i, " is 0");
    check(!__builtin_mul_overflow(count, size, &count), "read_idx: ", source.name(),
          ": the header says ", product, " bytes, more than any file holds; it is damaged");
  }
  return Shape(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(rank)));
}

// Grows with what is read, so a header that lies costs no memory.
std::vector<std::uint8_t> checked_body(ByteSource& source, const Shape& shape) {
  const auto expected = static_cast<std::size_t>(shape.numel());
  std::vector<std::uint8_t> body;
  while (body.size() < expected) {
    const std::size_t before = body.size();
    const std::size_t wanted = std::min(expected - before, chunk_bytes);
    body.resize(before + wanted);
    const std::size_t got = source.read(std::span(body).subspan(before, wanted));
    check(got == wanted, "read_idx: ", source.name(), " is cut short: its header says ", shape,
          ", so expected ", expected, " bytes after the header, found ", before + got);
  }
  // Also makes gzip check its checksum, which comes after the last element.
  std::array<std::uint8_t, 4096> beyond;
  const std::size_t extra = source.read(beyond);
  check(extra == 0, "read_idx: ", source.name(), " is too long: its header says ", shape,
        ", so expected ", expected, " bytes after the header, found ", expected + extra,
        extra == beyond.size() ? " or more" : "");
  return body;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& file, int rank) {
  check(rank >= 0 && rank <= 4, "read_idx: rank ", rank, " expected of ", full_path(file).string(),
        "; IDX files of rank 1 to 4 are read, 0 stands for any");
  check(!file.empty(), "read_idx: the path is empty, expected an IDX file");
  ByteSource source(file);
  std::array<std::uint8_t, 4> magic{};
  const std::size_t got = source.read(magic);
  check(got > 0, "read_idx: ", source.name(), " is empty, expected an IDX file");
  const Shape shape = checked_shape(
      source, checked_rank(source, std::span<const std::uint8_t>(magic).first(got), rank));
  return Tensor::from(checked_body(source, shape), shape);
}

}  // namespace sinter
