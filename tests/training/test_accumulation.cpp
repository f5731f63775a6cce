// Gradient accumulation: a batch in pieces gives the update of the whole.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "clouds.h"
#include <sinter/sinter.h>

using namespace sinter;

namespace {

std::vector<double> weights(Module& model) {
  std::vector<double> out;
  for (const NamedParameter& parameter : model.parameters()) {
    const auto values = parameter.value().detach().to(DType::float64).to_vector<double>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

Sequential net(float drop_p) {
  manual_seed(6);
  Sequential model{Linear{4, 16}, GELU{.drop_p = drop_p}, Linear{16, 3}};
  model.parameters();  // drawn by this seed
  return model;
}

Batch batch_of(std::int64_t n) {
  const TensorDataset data = clouds(n, 4, 3);
  return {data.inputs(), data.targets()};
}

}  // namespace

TEST_CASE("without dropout, loss and update are those of the whole batch") {
  for (const std::int64_t rows : {1, 3, 5, 14, 15}) {  // one left over, two, none
    CAPTURE(rows);
    Batch batch = batch_of(15);
    batch.inputs = batch.inputs.to(DType::float64);
    Sequential whole = net(0), pieces = net(0);
    whole.to(DType::float64);
    pieces.to(DType::float64);
    SGD first{whole.parameters(), {.lr = 1}}, second{pieces.parameters(), {.lr = 1}};
    CapturedStep at_once{whole, CrossEntropyLoss{}, first};
    CapturedStep accumulating{pieces, CrossEntropyLoss{}, second};
    accumulating.set_micro_batch(rows);
    for (int step = 0; step < 3; ++step) {
      CHECK(accumulating(batch).item() == doctest::Approx(at_once(batch).item()).epsilon(1e-12));
    }
    const auto a = weights(whole), b = weights(pieces);
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(b[i] == doctest::Approx(a[i]).epsilon(1e-10));
    }
    CHECK(second.steps() == 3);
  }
}

TEST_CASE("pieces are the loop that one would write by hand, bit for bit") {
  const Batch batch = batch_of(10);
  Sequential model = net(0.3f), by_hand = net(0.3f);
  AdamW optimizer{model.parameters(), {.lr = 0.05}}, own{by_hand.parameters(), {.lr = 0.05}};
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  step.set_micro_batch(4);
  step.set_max_grad_norm(0.1);
  for (int i = 0; i < 4; ++i) {
    const double loss = step(batch).item();
    double expected = 0;
    for (const auto& [begin, end] : {std::pair{0, 4}, {4, 8}, {8, 10}}) {
      Tape tape;
      const Tensor of_piece = by_hand.cross_entropy(batch.inputs.view_rows(begin, end),
                                                    batch.targets.view_rows(begin, end)) *
                              ((end - begin) / 10.0);
      tape.backward(of_piece);
      expected += of_piece.item();
    }
    clip_grad_norm(by_hand.parameters(), 0.1);
    own.step();
    CHECK(loss == doctest::Approx(expected).epsilon(1e-6));
    CHECK(weights(model) == weights(by_hand));
    // Each piece has a dropout mask of its own.
    CHECK(model.generator()->step() == static_cast<std::uint32_t>(3 * (i + 1)));
  }
}

TEST_CASE("an error in a piece leaves no half of a gradient") {
  const Batch batch = batch_of(12);
  Sequential model = net(0), reference = net(0);
  SGD optimizer{model.parameters(), {.lr = 0.5}}, own{reference.parameters(), {.lr = 0.5}};
  int calls = 0;
  const Loss fails = [&](const Tensor& y, const Tensor& t) {
    if (++calls == 2) {
      throw std::runtime_error("the second");
    }
    return cross_entropy(y, t);
  };
  CapturedStep step{model, fails, optimizer};
  CapturedStep never{reference,
                     [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); }, own};
  step.set_micro_batch(4);
  never.set_micro_batch(4);
  const auto before = weights(model);
  CHECK_THROWS_AS(step(batch), std::runtime_error);
  CHECK(weights(model) == before);
  CHECK_FALSE(has_gradient(model.parameters()[0]));
  step(batch);
  never(batch);
  CHECK(weights(model) == weights(reference));
}

TEST_CASE("eagerly each piece's loss is seen before the update") {
  const Batch batch = batch_of(7);
  Sequential model = net(0);
  SGD optimizer{model.parameters(), {.lr = 0.5}};
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  step.set_micro_batch(3);
  const auto before = weights(model);
  std::vector<double> seen;
  const double loss = step.eager(batch, [&](double of_piece) {
    CHECK(weights(model) == before);
    seen.push_back(of_piece);
  });
  REQUIRE(seen.size() == 3);
  CHECK(loss == doctest::Approx((3 * seen[0] + 3 * seen[1] + seen[2]) / 7).epsilon(1e-6));
  CHECK(weights(model) != before);
}

TEST_CASE("a loss scale and pieces go together") {
  const Batch batch = batch_of(8);
  Sequential model = net(0), reference = net(0);
  SGD optimizer{model.parameters(), {.lr = 0.5}}, own{reference.parameters(), {.lr = 0.5}};
  GradScaler scaler({.init_scale = 1024});
  CapturedStep scaled{model, CrossEntropyLoss{}, optimizer};
  CapturedStep plain{reference, CrossEntropyLoss{}, own};
  scaled.set_grad_scaler(&scaler);
  for (CapturedStep* step : {&scaled, &plain}) {
    step->set_micro_batch(4);
    step->set_max_grad_value(0.01);
    step->set_max_grad_norm(0.02);
    (*step)(batch);
    (*step)(batch);
  }
  CHECK(weights(model) == weights(reference));  // the scale is a power of two
  CHECK(optimizer.steps() == 2);
}

TEST_CASE("gradients are held to a value, then to a norm") {
  const Batch batch = batch_of(8);
  const auto gradients = [&](std::optional<double> value, std::optional<double> norm) {
    Sequential model = net(0);
    const auto before = weights(model);
    SGD optimizer{model.parameters(), {.lr = 1}};
    CapturedStep step{model, CrossEntropyLoss{}, optimizer};
    step.set_max_grad_value(value);
    step.set_max_grad_norm(norm);
    step(batch);
    auto out = weights(model);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = before[i] - out[i];
    }
    return out;
  };
  const auto full = gradients({}, {}), held = gradients(0.02, {}), both = gradients(0.02, 0.05);
  double squares = 0;
  for (const double g : full) {
    squares += std::pow(std::clamp(g, -0.02, 0.02), 2);
  }
  const double factor = 0.05 / std::sqrt(squares);
  REQUIRE(factor < 1);
  for (std::size_t i = 0; i < full.size(); ++i) {
    const double clamped = std::clamp(full[i], -0.02, 0.02);
    CHECK(std::abs(held[i] - clamped) < 1e-6);
    CHECK(std::abs(both[i] - factor * clamped) < 1e-6);
  }
  CHECK(*std::ranges::max_element(full) > 0.03);
}

TEST_CASE("what a captured step's options refuse") {
  Sequential model = net(0);
  SGD optimizer{model.parameters()};
  CapturedStep step{model, CrossEntropyLoss{}, optimizer};
  check_refused([&] { step.set_micro_batch(0); }, {"CapturedStep", "micro-batch", "0"});
  check_refused([&] { step.set_max_grad_value(0); }, {"CapturedStep: max_grad_value", "0"});
  check_refused([&] { step.set_max_grad_value(NAN); }, {"CapturedStep: max_grad_value", "nan"});
}
