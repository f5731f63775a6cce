#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sentence.h"
#include <sinter/runtime/parallel.h>

namespace sinter {
namespace {

// Puts back what num_threads() was.
struct KeepThreads {
  int before = num_threads();
  ~KeepThreads() { set_num_threads(before); }
};

// How often each of `pieces` ran.
std::vector<int> runs(std::int64_t pieces) {
  std::vector<std::atomic<int>> ran(static_cast<std::size_t>(pieces));
  parallel_pieces(pieces, [&](std::int64_t piece) { ++ran[static_cast<std::size_t>(piece)]; });
  return {ran.begin(), ran.end()};
}

TEST_CASE("every piece runs once, for any number of threads") {
  const KeepThreads keep;
  for (int threads = 1; threads <= 5; ++threads) {
    set_num_threads(threads);
    CHECK(num_threads() == threads);
    for (const std::int64_t pieces : {0, 1, 2, 3, 7, 1000}) {
      CAPTURE(threads);
      CAPTURE(pieces);
      CHECK(runs(pieces) == std::vector<int>(static_cast<std::size_t>(pieces), 1));
    }
  }
}

TEST_CASE("pieces are shared out among threads") {
  const KeepThreads keep;
  set_num_threads(4);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  parallel_pieces(4, [&](std::int64_t) {
    const std::scoped_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  CHECK(seen.size() > 1);
  seen.clear();
  set_num_threads(1);
  parallel_pieces(4, [&](std::int64_t) { seen.insert(std::this_thread::get_id()); });
  CHECK(seen == std::set{std::this_thread::get_id()});
}

TEST_CASE("OneThread keeps the loops of its thread on it, and no other's") {
  const KeepThreads keep;
  set_num_threads(4);
  {
    const OneThread outer;
    {
      const OneThread inner;
      CHECK(num_threads() == 1);
    }
    set_num_threads(3);
    CHECK(num_threads() == 1);
    std::set<std::thread::id> seen;
    parallel_pieces(4, [&](std::int64_t) { seen.insert(std::this_thread::get_id()); });
    CHECK(seen == std::set{std::this_thread::get_id()});
    int elsewhere = 0;
    std::thread([&] { elsewhere = num_threads(); }).join();
    CHECK(elsewhere == 3);
  }
  CHECK(num_threads() == 3);
}

TEST_CASE("ranges cover [0, n) without overlap, and are the same for any number of threads") {
  const KeepThreads keep;
  using Ranges = std::set<std::pair<std::int64_t, std::int64_t>>;
  const auto ranges_of = [](std::int64_t n, std::int64_t grain) {
    std::mutex mutex;
    Ranges ranges;
    parallel_ranges(n, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::scoped_lock lock(mutex);
      ranges.emplace(begin, end);
    });
    return ranges;
  };
  for (int threads = 1; threads <= 4; ++threads) {
    set_num_threads(threads);
    CHECK(ranges_of(10, 4) == Ranges{{0, 4}, {4, 8}, {8, 10}});
    CHECK(ranges_of(8, 4) == Ranges{{0, 4}, {4, 8}});
    CHECK(ranges_of(3, 4) == Ranges{{0, 3}});
    CHECK(ranges_of(0, 4).empty());
    CHECK(ranges_of(-5, 4).empty());
    CHECK(ranges_of((std::int64_t{1} << 40) + 1, std::int64_t{1} << 40).size() == 2);
  }
}

TEST_CASE("shares are even, one for each thread, and none where there is too little") {
  const KeepThreads keep;
  using Shares = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto shares_of = [](std::int64_t n, std::int64_t grain) {
    std::mutex mutex;
    Shares shares;
    parallel_shares(n, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::scoped_lock lock(mutex);
      shares.emplace_back(begin, end);
    });
    std::ranges::sort(shares);
    return shares;
  };
  set_num_threads(3);
  CHECK(shares_of(10, 4) == Shares{{0, 3}, {3, 6}, {6, 10}});
  CHECK(shares_of(8, 4) == Shares{{0, 4}, {4, 8}});
  CHECK(shares_of(4, 4) == Shares{{0, 4}});
  CHECK(shares_of(1, 4) == Shares{{0, 1}});
  CHECK(shares_of(0, 4).empty());
  CHECK(shares_of(-5, 4).empty());
  CHECK(shares_of(100'003, 40'000) == Shares{{0, 33'280}, {33'280, 66'624}, {66'624, 100'003}});
  const std::int64_t large = std::int64_t{1} << 62;
  CHECK(shares_of(large, 1).back().second == large);
  set_num_threads(1);
  CHECK(shares_of(100, 4) == Shares{{0, 100}});
}

TEST_CASE("one range wakes no other thread") {
  const KeepThreads keep;
  set_num_threads(4);
  std::thread::id ran;
  parallel_ranges(parallel_grain, parallel_grain,
                  [&](std::int64_t, std::int64_t) { ran = std::this_thread::get_id(); });
  CHECK(ran == std::this_thread::get_id());
}

struct Special : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_CASE("an exception of a piece comes out as it was thrown, and the next loop runs") {
  const KeepThreads keep;
  for (int threads = 1; threads <= 4; ++threads) {
    set_num_threads(threads);
    for (const std::int64_t pieces : {1, 2, 100}) {
      CAPTURE(threads);
      CAPTURE(pieces);
      const auto fail_in_last = [pieces] {
        parallel_pieces(pieces, [pieces](std::int64_t piece) {
          if (piece == pieces - 1) {
            throw Special("piece " + std::to_string(piece));
          }
        });
      };
      CHECK_THROWS_WITH_AS(fail_in_last(), ("piece " + std::to_string(pieces - 1)).c_str(),
                           Special);
      CHECK(runs(pieces) == std::vector<int>(static_cast<std::size_t>(pieces), 1));
    }
  }
}

TEST_CASE("which of several exceptions comes out does not depend on the threads") {
  const KeepThreads keep;
  for (int threads = 1; threads <= 4; ++threads) {
    set_num_threads(threads);
    for (int turn = 0; turn < 50; ++turn) {
      CHECK(sentence_of([] {
              parallel_pieces(64,
                              [](std::int64_t piece) { check(piece % 16 != 5, "piece ", piece); });
            }) == "piece 5");
    }
  }
}

TEST_CASE("a loop inside a loop runs, and throws through both") {
  const KeepThreads keep;
  for (int threads = 1; threads <= 4; ++threads) {
    set_num_threads(threads);
    std::vector<std::atomic<int>> ran(8 * 9);
    parallel_pieces(8, [&](std::int64_t i) {
      parallel_pieces(9, [&](std::int64_t j) { ++ran[static_cast<std::size_t>(i * 9 + j)]; });
    });
    CHECK(std::ranges::all_of(ran, [](const auto& count) { return count == 1; }));
    const auto fail_inside = [] {
      parallel_pieces(8, [](std::int64_t i) {
        parallel_pieces(9, [i](std::int64_t j) {
          if (i == 3 && j == 4) {
            throw Special("inside");
          }
        });
      });
    };
    CHECK_THROWS_WITH_AS(fail_inside(), "inside", Special);
  }
}

TEST_CASE("sums over ranges have the same bits for any number of threads") {
  const KeepThreads keep;
  const auto sum = [] {
    constexpr std::int64_t n = 100'003;
    constexpr std::int64_t grain = 1000;
    std::vector<float> partial(n / grain + 1);
    parallel_ranges(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        partial[static_cast<std::size_t>(begin / grain)] += std::sin(static_cast<float>(i));
      }
    });
    float total = 0;
    for (const float p : partial) {
      total += p;
    }
    return total;
  };
  set_num_threads(1);
  const float wanted = sum();
  for (int threads = 2; threads <= 5; ++threads) {
    set_num_threads(threads);
    CHECK(sum() == wanted);
  }
}

TEST_CASE("loops started from several threads at once") {
  const KeepThreads keep;
  set_num_threads(2);
  std::atomic<int> total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&total] { parallel_pieces(100, [&](std::int64_t) { ++total; }); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(total == 400);
}

TEST_CASE("fewer threads than one, or more than any machine has, is an error and changes nothing") {
  const KeepThreads keep;
  set_num_threads(3);
  for (const int threads : {0, -1, -1000, 1025, 100000}) {
    check_refused([threads] { set_num_threads(threads); },
                  {"set_num_threads", "expected 1 to 1024", text("got ", threads)});
    CHECK(num_threads() == 3);
  }
}

}  // namespace
}  // namespace sinter
