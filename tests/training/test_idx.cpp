// IDX files as they should be, and every way in which people found them broken.
#include <doctest/doctest.h>

#include "data_files.h"
#include <sinter/runtime/paths.h>
#include <sinter/runtime/pool.h>
#include <sinter/training/idx.h>

namespace sinter {
namespace {

using namespace testing;

const Bytes six{1, 2, 3, 4, 5, 255};

// The error for a file of these bytes, which must name the file in full.
std::string error_for(const Bytes& bytes, int rank = 0) {
  const TempFolder folder;
  const auto path = write_file(folder / "data", bytes);
  const std::string message = error_of([&] { read_idx(path, rank); });
  CHECK(has(message, "read_idx: " + path.string()));
  return message;
}

TEST_CASE("an IDX file of any rank is read, plain or gzip") {
  const TempFolder folder;
  const std::vector<std::vector<std::uint32_t>> shapes{{6}, {2, 3}, {3, 1, 2}, {1, 2, 1, 3}};
  for (const auto& sizes : shapes) {
    const Bytes plain = joined(idx_header(sizes), six);
    for (const Bytes& bytes : {plain, gzip(plain)}) {
      const auto path = write_file(folder / "data", bytes);
      const Tensor tensor = read_idx(path, static_cast<int>(sizes.size()));
      const std::vector<std::int64_t> expected(sizes.begin(), sizes.end());
      CHECK(tensor.shape() == Shape(std::span<const std::int64_t>(expected)));
      CHECK(tensor.dtype() == DType::uint8);
      CHECK(tensor.to_vector<std::uint8_t>() == six);
      CHECK(read_idx(path).shape() == tensor.shape());
    }
  }
}

TEST_CASE("files larger than every buffer inside are read whole") {
  const TempFolder folder;
  Bytes body((std::size_t{5} << 20) / 2 + 7);
  std::uint32_t state = 1;
  for (std::uint8_t& byte : body) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  const Bytes plain = joined(idx_header({static_cast<std::uint32_t>(body.size())}), body);
  for (const Bytes& bytes : {plain, gzip(plain)}) {
    CHECK(read_idx(write_file(folder / "data", bytes)).to_vector<std::uint8_t>() == body);
  }
}

TEST_CASE("a gzip file may consist of several members") {
  const TempFolder folder;
  const Bytes bytes = joined(gzip(idx_header({2, 3})), joined(gzip({1, 2}), gzip({3, 4, 5, 255})));
  CHECK(read_idx(write_file(folder / "data", bytes)).to_vector<std::uint8_t>() == six);
}

TEST_CASE("a path that is no readable file") {
  const TempFolder folder;
  const std::string missing = error_of([&] { read_idx(folder / "sub/../nothing"); });
  CHECK(has(missing, (folder / "nothing").string() + " does not exist"));
  const std::string is_folder = error_of([&] { read_idx(folder.path()); });
  CHECK(has(is_folder, folder.path().string() + " is a folder"));
  CHECK(has(error_of([] { read_idx(""); }), "path is empty"));
  const std::string relative = error_of([] { read_idx("no/such/file"); });
  CHECK(has(relative, (std::filesystem::current_path() / "no/such/file").string()));
}

TEST_CASE("a file that holds something else") {
  CHECK(has(error_for({}), "is empty"));
  CHECK(has(error_for({0, 0, 8}), "holds 3 bytes, expected an IDX header of at least 8"));
  for (const char* page : {"<!DOCTYPE html><html>", "\n  <html>", "\xef\xbb\xbf<html>"}) {
    CHECK(has(error_for(bytes_of(page)), "looks like a web page (starts with '<')"));
    CHECK(has(error_for(gzip(bytes_of(page))), "looks like a web page"));
  }
  CHECK(has(error_for(bytes_of("PK\x03\x04 and so on")),
            "is not an IDX file: it starts with 50 4b 03 04, expected 00 00 08"));
  CHECK(has(error_for(joined({0, 0, 0x77, 1}, six)), "starts with 00 00 77 01"));
}

TEST_CASE("a header that is byte-swapped, of another type or of another rank") {
  const Bytes swapped{3, 8, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
  CHECK(has(error_for(joined(swapped, six)),
            "byte-swapped (little-endian): it starts with 03 08 00"));
  const std::string type = error_for(joined(idx_header({6}, 0x0d), six));
  CHECK(has(type, "type float32 (code 0d), expected unsigned byte (08)"));
  CHECK(has(error_for(joined(idx_header({1, 1, 1, 1, 6}), six)), "5 dimensions, expected 1 to 4"));
  CHECK(has(error_for({0, 0, 8, 0, 1, 2, 3, 4}), "0 dimensions, expected 1 to 4"));
  CHECK(has(error_for(joined(idx_header({6}), six), 3), "has 1 dimension, expected 3"));
  CHECK(has(error_for(joined(idx_header({1, 2, 3}), six), 1), "has 3 dimensions, expected 1"));
}

TEST_CASE("sizes that cannot be") {
  Bytes short_header = idx_header({2, 3, 4});
  short_header.resize(11);
  CHECK(has(error_for(short_header), "header of 3 dimensions takes 16 bytes, found 11"));
  CHECK(has(error_for(idx_header({2, 0, 28})), "says 2 x 0 x 28, expected sizes of at least 1"));
  const std::uint32_t most = 0xffffffffu;
  CHECK(has(error_for(idx_header({most, most, 1})), "4294967295 x 4294967295 x 1"));
  CHECK(has(error_for(idx_header({most, most, most, most})), "more than any file holds"));
}

TEST_CASE("a body too short or too long, and a header that lies costs no memory") {
  const Bytes shorter(six.begin(), six.end() - 1);
  const Bytes longer = joined(six, {7});
  const auto unchanged = [](const Bytes& bytes) { return bytes; };
  for (const auto& pack : {+unchanged, &gzip}) {
    const std::string cut = error_for(pack(joined(idx_header({2, 3}), shorter)));
    CHECK(has(cut, "header says [2, 3], so expected 6 bytes after the header, found 5"));
    const std::string extra = error_for(pack(joined(idx_header({2, 3}), longer)));
    CHECK(has(extra, "header says [2, 3], so expected 6 bytes after the header, found 7"));

    reset_peak(Device::cpu());
    const std::size_t before = pool_stats(Device::cpu()).peak_in_use;
    const std::string lie = error_for(pack(joined(idx_header({0x7fffffff, 0x7fffffff}), six)));
    CHECK(has(lie, "expected 4611686014132420609 bytes after the header, found 6"));
    CHECK(pool_stats(Device::cpu()).peak_in_use == before);
  }
}

TEST_CASE("a gzip file that is cut short, damaged or followed by something") {
  Bytes body(10000);
  for (std::size_t i = 0; i < body.size(); ++i) {
    body[i] = static_cast<std::uint8_t>(i * i >> 3);
  }
  const Bytes whole = gzip(joined(idx_header({10000}), body));
  for (const std::size_t left :
       {std::size_t{2}, std::size_t{9}, whole.size() / 2, whole.size() - 8, whole.size() - 1}) {
    CHECK(has(error_for(Bytes(whole.begin(), whole.begin() + static_cast<long>(left))),
              "gzip file cut short"));
  }
  Bytes wrong_crc = whole;
  wrong_crc[whole.size() - 8] ^= 1;
  CHECK(has(error_for(wrong_crc), "damaged gzip file (incorrect data check)"));
  Bytes wrong_length = whole;
  wrong_length[whole.size() - 4] ^= 1;
  CHECK(has(error_for(wrong_length), "damaged gzip file (incorrect length check)"));
  Bytes wrong_method = whole;
  wrong_method[2] = 7;
  CHECK(has(error_for(wrong_method), "damaged gzip file (unknown compression method)"));
  for (const Bytes& tail : {Bytes{0}, Bytes{1, 2, 3}, Bytes(100, 0x1f)}) {
    CHECK(has(error_for(joined(whole, tail)), "something else after the end of its gzip data"));
  }
}

TEST_CASE("no single wrong byte of a gzip file goes unnoticed or crashes") {
  const TempFolder folder;
  const Bytes whole = gzip(joined(idx_header({2, 3}), six));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes wrong = whole;
    wrong[i] ^= 0x10;
    const auto path = write_file(folder / "data", wrong);
    const bool not_data = i >= 4 && i < 10;  // time stamp and origin, which say nothing
    try {
      const Tensor tensor = read_idx(path);
      CHECK(tensor.to_vector<std::uint8_t>() == six);
      CHECK(not_data);
    } catch (const Error&) {
      CHECK_FALSE(not_data);
    }
  }
}

TEST_CASE("full_path needs no file and is tidy") {
  const auto here = std::filesystem::current_path();
  CHECK(full_path("") == here);
  CHECK(full_path("a/../b/") == here / "b");
  CHECK(full_path("/") == "/");
  CHECK(full_path("/x/./y") == "/x/y");
}

}  // namespace
}  // namespace sinter
