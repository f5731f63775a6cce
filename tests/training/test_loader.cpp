// Orders and batches: known permutations, sizes, epochs, resuming, and errors on the way.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <stdexcept>
#include <type_traits>

#include <doctest/doctest.h>

#include "data_files.h"
#include <sinter/runtime/generator.h>
#include <sinter/runtime/parallel.h>
#include <sinter/training/loader.h>

namespace sinter {
namespace {

using namespace testing;
using Order = std::vector<std::int64_t>;

// Item i is the number i.
class Counting : public Dataset {
 public:
  explicit Counting(std::int64_t n) : n_(n) {}
  std::int64_t size() const override { return n_; }
  Batch get(std::int64_t i) const override {
    return {Tensor::from({static_cast<float>(i)}, {1}), Tensor::from({i}, {})};
  }

 private:
  std::int64_t n_;
};

class Failing : public Counting {
 public:
  using Counting::Counting;
  Batch get(std::int64_t i) const override {
    if (i == 7) {
      throw std::runtime_error("disk 7 is on fire");
    }
    return Counting::get(i);
  }
};

struct Epoch {
  Order items;
  Order sizes;
};

Epoch run(DataLoader& loader) {
  Epoch out;
  for (auto [inputs, targets] : loader) {
    out.sizes.push_back(inputs.size(0));
    std::ranges::copy(targets.to_vector<std::int64_t>(), std::back_inserter(out.items));
  }
  return out;
}

Order counted(std::int64_t n) {
  Order out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), std::int64_t{0});
  return out;
}

Order sorted(Order order) {
  std::ranges::sort(order);
  return order;
}

// The expected orders come from a Python program of its own, checked against the known answers of
// Philox4x32-10 that Random123 publishes.
TEST_CASE("permutations are fixed for good") {
  CHECK(permutation(10, 0, 0) == Order{4, 8, 3, 5, 1, 6, 9, 7, 0, 2});
  CHECK(permutation(10, 0, 1) == Order{3, 6, 7, 2, 9, 8, 5, 4, 1, 0});
  CHECK(permutation(10, 7, 0) == Order{3, 1, 6, 0, 5, 7, 4, 8, 9, 2});
  CHECK(permutation(10, ~std::uint64_t{0}, 4294967295) == Order{7, 4, 9, 0, 8, 1, 2, 6, 3, 5});
  CHECK(permutation(12, 0x0123456789abcdef, 3) == Order{6, 9, 1, 3, 7, 8, 0, 2, 10, 4, 5, 11});
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::int64_t i : permutation(60000, 7, 4)) {
    hash = (hash ^ static_cast<std::uint64_t>(i)) * 0x100000001b3u;
  }
  CHECK(hash == 0x1a2fe7c7ce035fa3u);
}

TEST_CASE("a permutation holds every number once, and all orders are about as likely") {
  for (const std::int64_t n : {0, 1, 2, 3, 1000}) {
    CHECK(sorted(permutation(n, 5, 9)) == counted(n));
  }
  std::vector<int> seen(64);
  constexpr int epochs = 24000;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Order p = permutation(4, 3, epoch);
    ++seen[static_cast<std::size_t>(p[0] * 16 + p[1] * 4 + p[2])];
  }
  CHECK(std::ranges::count_if(seen, [](int n) { return n > 0; }) == 24);
  double chi_squared = 0;
  for (const int n : seen) {
    chi_squared += n == 0 ? 0 : (n - 1000.0) * (n - 1000.0) / 1000.0;
  }
  CHECK(chi_squared < 49.7);  // 23 degrees of freedom: exceeded by chance once in 1000
  CHECK(has(error_of([] { permutation(-1, 0, 0); }), "n is -1"));
  CHECK(has(error_of([] { permutation(3, 0, -1); }), "epoch -1 is outside"));
  CHECK(has(error_of([] { permutation(3, 0, 4294967296); }), "outside [0, 2^32)"));
}

TEST_CASE("10 items in batches of 3") {
  const Counting data(10);
  for (const bool shuffle : {false, true}) {
    DataLoader all(data, {.batch_size = 3, .shuffle = shuffle});
    CHECK(all.batches() == 4);
    for (int epoch = 0; epoch < 3; ++epoch) {
      const Epoch seen = run(all);
      CHECK(seen.sizes == Order{3, 3, 3, 1});
      CHECK(sorted(seen.items) == counted(10));
    }
    DataLoader full(data, {.batch_size = 3, .shuffle = shuffle, .drop_last = true});
    CHECK(full.batches() == 3);
    const Epoch seen = run(full);
    CHECK(seen.sizes == Order{3, 3, 3});
    CHECK(std::set(seen.items.begin(), seen.items.end()).size() == 9);
  }
  DataLoader one(data, {.batch_size = 1000, .shuffle = false});
  CHECK(run(one).items == counted(10));
  DataLoader exact(data, {.batch_size = 5});
  CHECK(run(exact).sizes == Order{5, 5});
}

TEST_CASE("every loop is a new epoch, given by seed and number alone") {
  const Counting data(10);
  DataLoader loader(data, {.batch_size = 4, .seed = 7});
  CHECK(loader.epoch() == 0);
  CHECK(run(loader).items == permutation(10, 7, 0));
  CHECK(loader.epoch() == 1);
  CHECK(run(loader).items == permutation(10, 7, 1));
  for (auto [inputs, targets] : loader) {
    break;  // an epoch that is left is over
  }
  CHECK(loader.epoch() == 3);
  loader.set_epoch(1);
  CHECK(run(loader).items == permutation(10, 7, 1));

  const int threads = num_threads();
  for (const int n : {1, 2, 4}) {
    set_num_threads(n);
    loader.set_epoch(0);
    CHECK(run(loader).items == permutation(10, 7, 0));
  }
  set_num_threads(threads);

  manual_seed(11);
  DataLoader seeded(data, {.batch_size = 4});
  manual_seed(0);
  CHECK(seeded.options().seed == 11);
  CHECK(run(seeded).items == permutation(10, 11, 0));
}

TEST_CASE("an epoch can be taken up in its middle") {
  const Counting data(10);
  DataLoader loader(data, {.batch_size = 3, .seed = 7});
  loader.set_epoch(5, 2);
  const Order whole = permutation(10, 7, 5);
  CHECK(run(loader).items == Order(whole.begin() + 6, whole.end()));
  CHECK(run(loader).items == permutation(10, 7, 6));
  loader.set_epoch(5, 4);  // stopped after the last batch: nothing is left
  CHECK(run(loader).items.empty());
  CHECK(
      has(error_of([&] { loader.set_epoch(0, 5); }), "has 4 batches, it cannot start at batch 5"));
  CHECK(has(error_of([&] { loader.set_epoch(-1); }), "epoch is -1"));
  CHECK(loader.epoch() == 6);
}

TEST_CASE("the order of an epoch is to be had without its batches") {
  const Counting data(10);
  DataLoader loader(data, {.batch_size = 3, .seed = 7});
  CHECK(loader.next_order() == permutation(10, 7, 0));
  CHECK(run(loader).items == permutation(10, 7, 1));
  loader.set_epoch(5, 2);
  const Order whole = permutation(10, 7, 5);
  CHECK(loader.next_order() == Order(whole.begin() + 6, whole.end()));
  CHECK(loader.epoch() == 6);
  loader.set_epoch(5, 4);
  CHECK(loader.next_order().empty());
  DataLoader dropping(data, {.batch_size = 3, .shuffle = false, .drop_last = true});
  CHECK(dropping.next_order() == Order{0, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("a loop goes on whatever becomes of its loader") {
  const Counting data(5);
  auto at = DataLoader(data, {.batch_size = 2, .shuffle = false}).begin();
  Order items;
  for (; at != std::default_sentinel; ++at) {
    std::ranges::copy((*at).targets.to_vector<std::int64_t>(), std::back_inserter(items));
  }
  CHECK(items == counted(5));
  static_assert(std::input_iterator<DataLoader::Iterator>);
}

TEST_CASE("what a data set throws reaches the loop") {
  const Failing data(10);
  DataLoader loader(data, {.batch_size = 3, .shuffle = false});
  std::int64_t batches = 0;
  std::string message;
  try {
    for (auto [inputs, targets] : loader) {
      ++batches;
    }
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  CHECK(message == "disk 7 is on fire");
  CHECK(batches == 2);
}

TEST_CASE("a batch() that returns another number of items is caught") {
  class Short : public Counting {
   public:
    using Counting::Counting;
    Batch batch(std::span<const std::int64_t> indices, Device device) const override {
      return Counting::batch(indices.subspan(1), device);
    }
  };
  const Short data(10);
  DataLoader loader(data, {.batch_size = 3});
  CHECK(has(error_of([&] { run(loader); }), "asked for a batch of 3 items"));
}

TEST_CASE("what makes no loader") {
  const Counting none(0), ten(10);
  CHECK(has(error_of([&] { DataLoader(ten, {.batch_size = 0}); }), "batch_size is 0"));
  CHECK(has(error_of([&] { DataLoader(ten, {.batch_size = -3}); }), "batch_size is -3"));
  CHECK(has(error_of([&] { DataLoader{none}; }), "the data set has no items"));
  CHECK(has(error_of([&] { DataLoader(ten, {.batch_size = 11, .drop_last = true}); }),
            "10 items are fewer than one batch of 11"));
  static_assert(std::is_constructible_v<DataLoader, const Counting&, LoaderOptions>);
  static_assert(!std::is_constructible_v<DataLoader, Counting, LoaderOptions>);
  static_assert(!std::is_constructible_v<DataLoader, const Counting, LoaderOptions>);
  static_assert(!std::is_constructible_v<DataLoader, Counting>);
}

TEST_CASE("batches arrive on the device asked for") {
  const Counting data(4);
  DataLoader loader(data, {.batch_size = 4, .shuffle = false, .device = Device::fake()});
  for (auto [inputs, targets] : loader) {
    CHECK(inputs.device() == Device::fake());
    CHECK(targets.device() == Device::fake());
    CHECK(inputs.to_vector<float>() == std::vector<float>{0, 1, 2, 3});
  }
}

}  // namespace
}  // namespace sinter
