#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <sinter/runtime/generator.h>

namespace sinter {
namespace {

bool same(const DropoutCall& a, std::uint64_t seed, std::uint32_t call, std::uint32_t step) {
  return a.seed == seed && a.call == call && a.step == step;
}

TEST_CASE("calls are numbered within a step, steps count up") {
  Generator g(0x0123456789abcdef);
  CHECK(g.seed() == 0x0123456789abcdef);
  CHECK(same(g.take_call(), 0x0123456789abcdef, 0, 0));
  CHECK(same(g.take_call(), 0x0123456789abcdef, 1, 0));
  CHECK(g.next_call() == 2);
  g.advance_step();
  CHECK(g.step() == 1);
  CHECK(g.next_call() == 0);
  CHECK(same(g.take_call(), 0x0123456789abcdef, 0, 1));
}

TEST_CASE("a restored state goes on where the saved one was") {
  Generator saved(9);
  for (int i = 0; i < 5; ++i) {
    saved.take_call();
    saved.advance_step();
  }
  saved.take_call();
  Generator restored(9);
  restored.set_state(saved.step(), saved.next_call());
  const DropoutCall wanted = saved.take_call();
  CHECK(same(wanted, 9, 1, 5));
  CHECK(same(restored.take_call(), 9, 1, 5));
}

TEST_CASE("parameters have ordinals of their own") {
  Generator g(1);
  CHECK(g.take_parameter() == 0);
  g.take_call();
  g.advance_step();
  CHECK(g.take_parameter() == 1);
  CHECK(g.take_parameter() == 2);
  CHECK(g.next_call() == 0);
}

std::vector<std::uint64_t> seeds_after(std::uint64_t seed, int models) {
  manual_seed(seed);
  std::vector<std::uint64_t> seeds;
  for (int i = 0; i < models; ++i) {
    const Generator g = next_generator();
    CHECK(g.step() == 0);
    CHECK(g.next_call() == 0);
    seeds.push_back(g.seed());
  }
  return seeds;
}

TEST_CASE("the first model gets the seed itself, later ones others, the same in every run") {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    const auto seeds = seeds_after(seed, 100);
    CHECK(global_seed() == seed);
    CHECK(seeds[0] == seed);
    CHECK(std::set<std::uint64_t>(seeds.begin(), seeds.end()).size() == 100);
    CHECK(seeds_after(seed, 100) == seeds);
  }
}

TEST_CASE("models of different seeds differ, in whatever order they are built") {
  std::set<std::uint64_t> all;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const std::uint64_t derived : seeds_after(seed, 20)) {
      all.insert(derived);
    }
  }
  CHECK(all.size() == 50 * 20);
  manual_seed(0);
}

}  // namespace
}  // namespace sinter
