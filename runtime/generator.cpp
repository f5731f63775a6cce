#include <mutex>

#include <sinter/runtime/generator.h>

namespace sinter {
namespace {

std::mutex mutex;
std::uint64_t seed = 0;
std::uint64_t models = 0;

// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014): neighbouring inputs give unrelated outputs.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void manual_seed(std::uint64_t value) {
  const std::scoped_lock lock(mutex);
  seed = value;
  models = 0;
}

std::uint64_t global_seed() {
  const std::scoped_lock lock(mutex);
  return seed;
}

Generator next_generator() {
  const std::scoped_lock lock(mutex);
  const std::uint64_t model = models++;
  return Generator(model == 0 ? seed : mix(seed + model * 0x9e3779b97f4a7c15u));
}

}  // namespace sinter
