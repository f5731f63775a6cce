#include <cstring>
#include <memory>
#include <span>

#include <sinter/autograd/draw.h>
#include <sinter/autograd/tape.h>
#include <sinter/runtime/graph.h>

namespace sinter {
namespace {

// The step of a generator as a graph under recording finds it in each replay; undefined outside
// one.
Tensor live_step(const std::shared_ptr<Generator>& generator) {
  Graph* const graph = Graph::recording();
  if (graph == nullptr) {
    return {};
  }
  const std::uint32_t step = generator->step();
  bool is_new = false;
  const auto ahead = static_cast<std::uint32_t>(graph->advanced(generator.get(), step, is_new));
  if (is_new) {
    // Of this step the call that stands behind the step's number has been taken already.
    graph->when_recorded([graph, generator, step, call = generator->next_call() - 1] {
      const std::uint32_t steps = generator->step() - step;
      generator->set_state(step, call);
      graph->when_replayed(
          [generator, steps] { generator->set_state(generator->step() + steps, 0); });
    });
  }
  return graph->live({1}, DType::int32, [generator, ahead](std::span<std::byte> to) {
    const std::uint32_t now = generator->step() + ahead;
    std::memcpy(to.data(), &now, sizeof now);
  });
}

}  // namespace

ops::DropoutArgs draw_mask(const char* who, const DropoutOptions& options) {
  check_probability(who, options.p);
  math::DropoutMask probe = math::dropout_mask(options.p, 0, 0, 0, options.scheme);
  if (probe.is_identity()) {
    return {probe};
  }
  check(options.generator != nullptr, who,
        ": dropout needs a generator; a layer has its model's, a functional call passes one as "
        "{.p = ..., .generator = ...}");
  const DropoutCall call = options.generator->take_call();
  if (Tape* tape = Tape::current()) {
    tape->uses(options.generator);
  }
  return {math::dropout_mask(options.p, call.seed, call.call, call.step, options.scheme), 0,
          live_step(options.generator)};
}

void check_floating(const char* who, const Tensor& x) {
  check(x.defined() && is_floating(x.dtype()), who, ": expected elements of a floating type, got ",
        x.defined() ? name_of(x.dtype()) : "an undefined tensor");
}

}  // namespace sinter
