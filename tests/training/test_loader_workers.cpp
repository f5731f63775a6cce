// Workers: the batches, order and errors of a loop without them, fetched ahead on other threads.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include "data_files.h"
#include <sinter/runtime/parallel.h>
#include <sinter/training/loader.h>

namespace sinter {
namespace {

using namespace testing;
using Order = std::vector<std::int64_t>;

// Item i is the number i; before one is given, `before` is called, on the thread that asks.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t n, std::function<void(std::int64_t)> before = nullptr)
      : n_(n), before_(std::move(before)) {}
  std::int64_t size() const override { return n_; }
  Batch get(std::int64_t i) const override {
    if (before_) {
      before_(i);
    }
    return {Tensor::from({static_cast<float>(i)}, {1}), Tensor::from({i}, {})};
  }

 private:
  std::int64_t n_;
  std::function<void(std::int64_t)> before_;
};

struct Epoch {
  Order items;
  Order sizes;
  bool operator==(const Epoch&) const = default;
};

Epoch run(DataLoader& loader) {
  Epoch out;
  for (const auto& [inputs, targets] : loader) {
    out.sizes.push_back(inputs.size(0));
    const auto numbers = inputs.to_vector<float>();
    const auto items = targets.to_vector<std::int64_t>();
    CHECK(std::ranges::equal(numbers, items, {}, {},
                             [](std::int64_t i) { return static_cast<float>(i); }));
    std::ranges::copy(items, std::back_inserter(out.items));
  }
  return out;
}

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 10'000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

TEST_CASE("10 items in batches of 3 with 0, 1 or 4 workers, each item once an epoch") {
  const Numbers data(10);
  for (const int workers : {0, 1, 4, 9}) {
    CAPTURE(workers);
    DataLoader all(data, {.batch_size = 3, .seed = 7, .workers = workers});
    DataLoader full(data, {.batch_size = 3, .drop_last = true, .seed = 7, .workers = workers});
    for (int epoch = 0; epoch < 3; ++epoch) {
      const Order whole = permutation(10, 7, epoch);
      CHECK(run(all) == Epoch{whole, {3, 3, 3, 1}});
      CHECK(run(full) == Epoch{Order(whole.begin(), whole.begin() + 9), {3, 3, 3}});
    }
    DataLoader plain(data, {.batch_size = 4, .shuffle = false, .workers = workers, .prefetch = 1});
    CHECK(run(plain) == Epoch{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {4, 4, 2}});
  }
}

TEST_CASE("batches come in order, whichever worker is done first") {
  // The earlier of two neighbours takes longer.
  const Numbers data(40, [](std::int64_t i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 2 == 0 ? 3 : 0));
  });
  DataLoader loader(data, {.batch_size = 1, .seed = 3, .workers = 4, .prefetch = 3});
  CHECK(run(loader).items == permutation(40, 3, 0));
}

TEST_CASE("what a data set throws reaches the loop at its batch, and nothing is lost") {
  struct OnFire : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const Numbers data(10, [](std::int64_t i) {
    if (i == 7) {
      throw OnFire("disk 7 is on fire");
    }
  });
  for (const int workers : {0, 1, 4}) {
    CAPTURE(workers);
    DataLoader loader(data, {.batch_size = 3, .shuffle = false, .workers = workers});
    for (int epoch = 0; epoch < 2; ++epoch) {  // the loader is as good as before
      Order sizes;
      std::string message;
      try {
        for (const auto& [inputs, targets] : loader) {
          sizes.push_back(inputs.size(0));
        }
      } catch (const OnFire& error) {
        message = error.what();
      }
      CHECK(message == "disk 7 is on fire");
      CHECK(sizes == Order{3, 3});
    }
    auto at = loader.begin();
    ++at;
    CHECK_THROWS_AS(++at, OnFire);
    ++at;  // whoever wants to can leave out the batch
    CHECK((*at).targets.to_vector<std::int64_t>() == Order{9});
    ++at;
    CHECK(at == std::default_sentinel);
    DataLoader first(data, {.batch_size = 10, .workers = workers});
    CHECK_THROWS_AS(first.begin(), OnFire);
  }
}

TEST_CASE("a batch() that returns another number of items is caught on a worker") {
  class Short : public Numbers {
   public:
    using Numbers::Numbers;
    Batch batch(std::span<const std::int64_t> indices, Device device) const override {
      return Numbers::batch(indices.subspan(1), device);
    }
  };
  const Short data(10);
  DataLoader loader(data, {.batch_size = 3, .workers = 2});
  CHECK(has(error_of([&] { run(loader); }), "asked for a batch of 3 items"));
}

TEST_CASE("workers fetch side by side, none on the thread of the loop") {
  constexpr int workers = 3;
  std::barrier together(workers);  // passes only if three threads wait for each other
  std::atomic<bool> in_the_loop{false};
  const auto loop = std::this_thread::get_id();
  const Numbers data(3 * workers, [&](std::int64_t) {
    in_the_loop = in_the_loop || std::this_thread::get_id() == loop;
    together.arrive_and_wait();
  });
  DataLoader loader(data, {.batch_size = 1, .workers = workers, .prefetch = 1});
  CHECK(run(loader).items.size() == 9);
  CHECK_FALSE(in_the_loop);
}

TEST_CASE("each worker is `prefetch` batches ahead, and no more") {
  std::atomic<int> fetched{0};
  const Numbers data(100, [&](std::int64_t) { ++fetched; });
  DataLoader loader(data, {.batch_size = 1, .workers = 2, .prefetch = 3});
  auto at = loader.begin();
  for (int taken = 1; taken <= 20; ++taken, ++at) {
    CHECK(comes_true([&] { return fetched == taken + 6; }));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(fetched == 21 + 6);
}

TEST_CASE("a loop that is left early has no worker behind it") {
  std::atomic<int> inside{0};
  auto data = std::make_unique<Numbers>(1000, [&](std::int64_t) {
    ++inside;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --inside;
  });
  {
    DataLoader loader(*data, {.batch_size = 2, .shuffle = false, .workers = 4});
    CHECK((*loader.begin()).inputs.size(0) == 2);
    CHECK(inside == 0);
    CHECK(loader.epoch() == 1);
    for (const auto& [inputs, targets] : loader) {
      CHECK(targets.to_vector<std::int64_t>() == Order{0, 1});
      break;
    }
  }
  data.reset();  // a sanitizer would see who still reads it
}

TEST_CASE("a loop with workers goes on whatever becomes of its loader, and may be moved") {
  const Numbers data(9);
  auto first = DataLoader(data, {.batch_size = 2, .shuffle = false, .workers = 2}).begin();
  Order items;
  const auto take = [&](const Batch& batch) {
    std::ranges::copy(batch.targets.to_vector<std::int64_t>(), std::back_inserter(items));
  };
  take(*first);
  ++first;
  auto at = std::move(first);
  for (; at != std::default_sentinel; ++at) {
    take(*at);
  }
  CHECK(items == Order{0, 1, 2, 3, 4, 5, 6, 7, 8});
  at = DataLoader(data, {.batch_size = 9, .shuffle = false, .workers = 2}).begin();
  CHECK((*at).inputs.size(0) == 9);
  static_assert(std::input_iterator<DataLoader::Iterator>);
}

TEST_CASE("an epoch can be taken up in its middle by workers") {
  const Numbers data(10);
  DataLoader loader(data, {.batch_size = 3, .seed = 7, .workers = 3});
  const Order whole = permutation(10, 7, 5);
  loader.set_epoch(5, 2);
  CHECK(run(loader) == Epoch{Order(whole.begin() + 6, whole.end()), {3, 1}});
  CHECK(run(loader).items == permutation(10, 7, 6));
  loader.set_epoch(5, 4);
  CHECK(run(loader).items.empty());
}

TEST_CASE("parallel loops of a worker stay on it") {
  const int before = num_threads();
  set_num_threads(4);
  std::atomic<int> most{0};
  std::atomic<bool> elsewhere{false};
  const Numbers data(8, [&](std::int64_t) {
    const auto here = std::this_thread::get_id();
    most = std::max(most.load(), num_threads());
    parallel_pieces(
        8, [&](std::int64_t) { elsewhere = elsewhere || std::this_thread::get_id() != here; });
  });
  DataLoader loader(data, {.batch_size = 2, .workers = 2});
  run(loader);
  CHECK(most == 1);
  CHECK_FALSE(elsewhere);
  CHECK(num_threads() == 4);
  set_num_threads(before);
}

TEST_CASE("the loop's thread moves batches to the device; workers are asked for the CPU") {
  class Places : public Numbers {
   public:
    using Numbers::Numbers;
    Batch batch(std::span<const std::int64_t> indices, Device device) const override {
      elsewhere = elsewhere || device != Device::cpu();
      return Numbers::batch(indices, device);
    }
    mutable std::atomic<bool> elsewhere{false};
  };
  const Places data(4);
  DataLoader loader(data,
                    {.batch_size = 2, .shuffle = false, .device = Device::fake(), .workers = 2});
  Order items;
  for (const auto& [inputs, targets] : loader) {
    CHECK(inputs.device() == Device::fake());
    CHECK(targets.device() == Device::fake());
    std::ranges::copy(targets.to_vector<std::int64_t>(), std::back_inserter(items));
  }
  CHECK(items == Order{0, 1, 2, 3});
  CHECK_FALSE(data.elsewhere);
}

TEST_CASE("our data sets serve several workers") {
  constexpr std::int64_t n = 500;
  std::vector<std::uint8_t> bytes(n * 64);
  std::vector<float> numbers(n * 3);
  Order labels(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(64 * i), 64,
                static_cast<std::uint8_t>(i % 256));
    std::fill_n(numbers.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, static_cast<float>(i));
    labels[i] = static_cast<std::int64_t>(i);
  }
  const Tensor targets = Tensor::from(labels, {n});
  const InMemoryDataset images(Tensor::from(bytes, {n, 1, 8, 8}), targets,
                               {.std = 1.0 / 255.0, .dtype = DType::float64});
  const TensorDataset rows(Tensor::from(numbers, {n, 3}), targets);
  Order odd;
  for (std::int64_t i = 1; i < n; i += 2) {
    odd.push_back(i);
  }
  const Subset part(images, odd);
  const auto check_all = [](const Dataset& data, std::int64_t items,
                            double (*value)(std::int64_t)) {
    DataLoader loader(data, {.batch_size = 7, .workers = 4});
    std::set<std::int64_t> seen;
    bool right = true;
    for (const auto& [inputs, labels_of] : loader) {
      const std::vector<double> got = inputs.to(DType::float64).to_vector<double>();
      const Order those = labels_of.to_vector<std::int64_t>();
      seen.insert(those.begin(), those.end());
      for (std::size_t i = 0; i < got.size(); ++i) {
        right = right && got[i] == doctest::Approx(value(those[i / (got.size() / those.size())]));
      }
    }
    CHECK(right);
    CHECK(seen.size() == static_cast<std::size_t>(items));
  };
  const auto byte_of = [](std::int64_t i) { return static_cast<double>(i % 256); };
  check_all(images, n, byte_of);
  check_all(part, n / 2, byte_of);
  check_all(rows, n, [](std::int64_t i) { return static_cast<double>(i); });
}

TEST_CASE("numbers of workers and batches that cannot be") {
  const Numbers data(10);
  CHECK(has(error_of([&] { DataLoader(data, {.workers = -1}); }),
            "DataLoader: workers is -1, expected 0 to 1024"));
  CHECK(has(error_of([&] { DataLoader(data, {.workers = 1025}); }), "workers is 1025"));
  CHECK(has(error_of([&] { DataLoader(data, {.prefetch = 0}); }),
            "DataLoader: prefetch is 0, expected 1 batch or more for each worker"));
  DataLoader most(data, {.batch_size = 1, .seed = 1, .workers = 1024, .prefetch = INT64_MAX});
  CHECK(run(most).items == permutation(10, 1, 0));
}

}  // namespace
}  // namespace sinter
