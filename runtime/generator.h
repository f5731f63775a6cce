// The state of a model's random numbers: four integers. Drawing from them is kernels/math/philox.h
// and kernels/math/dropout.h.
#pragma once

#include <cstdint>

namespace sinter {

/// What names the mask of one executed dropout; a backward pass that has it draws the same mask.
struct DropoutCall {
  std::uint64_t seed = 0;
  std::uint32_t call = 0;
  std::uint32_t step = 0;
};

/// One for each model. `step` counts training micro-batches (Tape::backward advances it), `call`
/// the dropouts executed in a step, in forward order.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t seed() const { return seed_; }
  std::uint32_t step() const { return step_; }
  std::uint32_t next_call() const { return next_call_; }
  void set_state(std::uint32_t step, std::uint32_t next_call) {
    step_ = step;
    next_call_ = next_call;
  }

  /// The next dropout of this step.
  DropoutCall take_call() { return {seed_, next_call_++, step_}; }
  void advance_step() {
    ++step_;
    next_call_ = 0;
  }
  /// The ordinal under which the next parameter's initial values are drawn.
  std::uint32_t take_parameter() { return next_parameter_++; }
  std::uint32_t next_parameter() const { return next_parameter_; }
  void set_next_parameter(std::uint32_t ordinal) { next_parameter_ = ordinal; }

 private:
  std::uint64_t seed_;
  std::uint32_t step_ = 0;
  std::uint32_t next_call_ = 0;
  std::uint32_t next_parameter_ = 0;
};

/// Seeds what is built from here on: weights, dropout and shuffling. The first model after it takes
/// `seed` itself, later ones a seed derived from it, so that a program's models differ and its runs
/// do not. Without a call the seed is 0.
void manual_seed(std::uint64_t seed);
/// The value last given to manual_seed.
std::uint64_t global_seed();
/// A generator for the next model.
Generator next_generator();

}  // namespace sinter
