// A device without a kernel for an op: the CPU stands in, over copies. The fake device counts them.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/child.h"
#include "../runtime/sentence.h"
#include <sinter/kernels/ops.h>
#include <sinter/runtime/backend.h>
#include <sinter/runtime/capture.h>

namespace sinter {
namespace {

struct Policy {
  explicit Policy(FallbackPolicy policy) { set_fallback_policy(policy); }
  ~Policy() { set_fallback_policy(FallbackPolicy::warn); }
};

// c = a + b, b = 2 b, over CPU tensors; nothing but a stand-in may call it in these tests.
void mix(In a, InOut b, Out c) {
  for (const Tensor* t : std::initializer_list<const Tensor*>{&*a, &*b, &*c}) {
    check(!t->defined() || t->device() == Device::cpu(), "not on the CPU");
  }
  for (std::int64_t i = 0; i < a->numel(); ++i) {
    if (c->defined()) {
      c->data<float>()[i] = a->data<float>()[i] + b->data<float>()[i];
    }
    b->data<float>()[i] *= 2;
  }
}
constexpr Op<In, InOut, Out> mixes{.name = "mixes", .cpu = mix};

Tensor on_fake(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, Device::fake());
}

TEST_CASE("inputs are copied out, outputs back, and what is both both ways") {
  const Policy silent(FallbackPolicy::silent);
  const Tensor a = on_fake({1, 2});
  Tensor b = on_fake({10, 20});
  Tensor c = on_fake({-1, -1});
  const std::uint64_t versions[] = {a.version(), b.version(), c.version()};
  reset_fake_device_counts();
  mixes(a, b, c);
  const FakeDeviceCounts counts = fake_device_counts();
  CHECK(counts.copies_to_host == 2);    // a and b: nobody reads c
  CHECK(counts.copies_from_host == 2);  // b and c: nobody wrote a
  CHECK(counts.bytes_copied == 4 * 8);
  CHECK(a.version() == versions[0]);
  CHECK(b.version() > versions[1]);
  CHECK(c.version() > versions[2]);
  CHECK(c.device() == Device::fake());
  CHECK(a.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(b.to_vector<float>() == std::vector<float>{20, 40});
  CHECK(c.to_vector<float>() == std::vector<float>{11, 22});
}

TEST_CASE("absent tensors are not copied") {
  const Policy silent(FallbackPolicy::silent);
  Tensor b = on_fake({10});
  Tensor absent;
  reset_fake_device_counts();
  mixes(on_fake({1}), b, absent);
  CHECK_FALSE(absent.defined());
  CHECK(fake_device_counts().copies_to_host == 2);
  CHECK(b.to_vector<float>() == std::vector<float>{20});
}

TEST_CASE("views are copied as views: what lies beside them stays") {
  const Policy silent(FallbackPolicy::silent);
  Tensor whole = on_fake({1, 2, 3, 4});
  Tensor inside = whole.view_rows(1, 3);
  Tensor absent;
  mixes(on_fake({0, 0}), inside, absent);
  CHECK(whole.to_vector<float>() == std::vector<float>{1, 4, 6, 4});
}

TEST_CASE("16-bit tensors fall back as float32 and come back rounded once") {
  const Policy silent(FallbackPolicy::silent);
  const Tensor a = Tensor::full({2}, 1, DType::bfloat16, Device::fake());
  Tensor b = Tensor::full({2}, 0x1p-9, DType::bfloat16, Device::fake());
  Tensor c = Tensor::zeros({2}, DType::bfloat16, Device::fake());
  mixes(a, b, c);
  CHECK(c.dtype() == DType::bfloat16);
  CHECK(c.view_rows(0, 1).item() == 1);
  CHECK(b.view_rows(1, 2).item() == 0x1p-8);
}

TEST_CASE("fallbacks are counted, for all ops and for each") {
  const Policy silent(FallbackPolicy::silent);
  constexpr Op<In, InOut, Out> counted{.name = "counted", .cpu = mix};
  CHECK(fallback_count("counted") == 0);
  CHECK(fallback_count("no such op") == 0);
  const std::int64_t all = fallback_count();
  Tensor b = on_fake({1});
  Tensor absent;
  for (int i = 0; i < 3; ++i) {
    counted(on_fake({1}), b, absent);
  }
  CHECK(fallback_count("counted") == 3);
  CHECK(fallback_count() == all + 3);
  Tensor here = Tensor::zeros({1});
  counted(Tensor::zeros({1}), here, absent);  // a kernel of its own is no fallback
  CHECK(fallback_count("counted") == 3);
}

TEST_CASE("fallbacks of several threads at once are all counted") {
  const Policy silent(FallbackPolicy::silent);
  constexpr Op<In, InOut, Out> op{.name = "from_threads", .cpu = mix};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&op] {
      Tensor b = on_fake({1});
      Tensor absent;
      for (int i = 0; i < 100; ++i) {
        op(on_fake({1}), b, absent);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(fallback_count("from_threads") == 400);
}

TEST_CASE("a policy of error refuses, and nothing is written or counted") {
  Tensor b = on_fake({5});
  Tensor absent;
  {
    const Policy error(FallbackPolicy::error);
    const std::int64_t before = fallback_count();
    const std::uint64_t version = b.version();
    check_refused([&] { mixes(on_fake({1}), b, absent); },
                  {"mixes", "no kernel for fake", "policy is error"});
    CHECK(fallback_count() == before);
    CHECK(b.version() == version);
    CHECK(b.to_vector<float>() == std::vector<float>{5});
  }
  const Policy silent(FallbackPolicy::silent);
  mixes(on_fake({1}), b, absent);
  CHECK(b.to_vector<float>() == std::vector<float>{10});
}

TEST_CASE("while a graph is captured a fallback is an error under every policy") {
  for (const FallbackPolicy policy :
       {FallbackPolicy::warn, FallbackPolicy::silent, FallbackPolicy::error}) {
    const Policy set(policy);
    Tensor b = on_fake({5});
    Tensor absent;
    const std::int64_t before = fallback_count();
    {
      const CaptureScope capture;
      check_refused([&] { mixes(on_fake({1}), b, absent); },
                    {"mixes", "no kernel for fake", "captured"});
      // What has a kernel runs.
      constexpr Op<In> direct{
          .name = "direct", .cpu = [](In) {}, .cuda = nullptr, .fake = [](In) {}};
      CHECK_NOTHROW(direct(b));
    }
    CHECK(fallback_count() == before);
    CHECK(b.to_vector<float>() == std::vector<float>{5});
  }
}

TEST_CASE("an exception on the stand-in path comes out, and the device's tensors are untouched") {
  const Policy silent(FallbackPolicy::silent);
  constexpr Op<InOut> fails{.name = "fails_on_fake", .cpu = [](InOut x) {
                              x->fill(9);
                              throw Error("too late");
                            }};
  Tensor x = on_fake({1, 2});
  CHECK(sentence_of([&] { fails(x); }) == "too late");
  CHECK(x.to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("the table's ops fall back too, with the CPU's results") {
  const Policy silent(FallbackPolicy::silent);
  const Device fake = Device::fake();
  const std::vector<float> values{0.5f, -1, 2, 3, -4, 5};
  const Tensor x = Tensor::from(values, {2, 3});
  const Tensor w = Tensor::from(values, {3, 2}).reshape({2, 3});
  const Tensor bias = Tensor::from({0.25f, -0.5f}, {2});
  const ops::ActivationArgs args{.act = math::GELU{},
                                 .dropout = {math::dropout_mask(0.4, 3, 2, 1), 6}};
  Tensor wanted = Tensor::zeros({2, 2});
  Tensor none;
  ops::linear_forward(x, w, bias, none, wanted, args);
  Tensor y = Tensor::zeros({2, 2}, DType::float32, fake);
  ops::linear_forward(x.to(fake), w.to(fake), bias.to(fake), none, y, args);
  CHECK(y.to_vector<float>() == wanted.to_vector<float>());
  CHECK(fallback_count("linear_forward") >= 1);
  check_refused(
      [&] {
        Tensor loss = Tensor::zeros({}, DType::float32, fake);
        const Tensor labels = Tensor::from({std::int64_t{0}, std::int64_t{3}}, {2}, fake);
        ops::cross_entropy(x.to(fake), labels, none, loss, none, {});
      },
      {"label 3 at row 1"});
}

TEST_CASE("child: fall back five times" * doctest::skip()) {
  constexpr Op<In, InOut, Out> other{.name = "other", .cpu = mix};
  Tensor b = on_fake({1});
  Tensor absent;
  for (int i = 0; i < 3; ++i) {
    mixes(on_fake({1}), b, absent);
  }
  other(on_fake({1}), b, absent);
  other(on_fake({1}), b, absent);
  set_fallback_policy(FallbackPolicy::silent);
  constexpr Op<In, InOut, Out> quiet{.name = "quiet", .cpu = mix};
  quiet(on_fake({1}), b, absent);
  CHECK(fallback_count() == 6);
}

TEST_CASE("the first time for each op a warning names it; in silence none does") {
  const ChildOutput out = run_child("env -u SINTER_LOG", "child: fall back five times");
  CAPTURE(out.text);
  CHECK(out.passed);
  CHECK(out.count("[sinter] warning: ") == 2);
  CHECK(out.count("warning: mixes: no kernel for fake; it runs on the CPU") == 1);
  CHECK(out.count("warning: other: no kernel for fake; it runs on the CPU") == 1);
}

}  // namespace
}  // namespace sinter
