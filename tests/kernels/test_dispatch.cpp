// How a call finds its kernel, and what it does to the versions of its arguments: with ops of our
// own, on the CPU and on the fake device.

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include <sinter/kernels/dispatch.h>

namespace sinter {
namespace {

// What the kernels below were last called with.
struct Seen {
  std::string kernel;
  std::vector<DType> types;
  std::vector<Device> devices;
  int number = 0;
};
Seen seen;

void note(const char* kernel, const Tensor& a, const Tensor& b, const Tensor& c, int number) {
  seen = {kernel, {a.dtype(), b.dtype(), c.dtype()}, {a.device(), b.device(), c.device()}, number};
}

void cpu_kernel(In a, InOut b, Out c, int number) { note("cpu", *a, *b, *c, number); }
void fake_kernel(In a, InOut b, Out c, int number) { note("fake", *a, *b, *c, number); }

constexpr Op<In, InOut, Out, int> both{
    .name = "both", .cpu = cpu_kernel, .cuda = nullptr, .fake = fake_kernel};

// How much the version of each tensor rises while `call` runs.
template <class Call>
std::vector<std::uint64_t> raised(const std::vector<Tensor>& tensors, Call call) {
  std::vector<std::uint64_t> before;
  for (const Tensor& t : tensors) {
    before.push_back(t.version());
  }
  call();
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.push_back(tensors[i].version() - before[i]);
  }
  return out;
}

TEST_CASE("the kernel of the tensors' device is called, with the very tensors") {
  for (const Device device : {Device::cpu(), Device::fake()}) {
    const Tensor a = Tensor::zeros({2}, DType::float64, device);
    Tensor b = Tensor::zeros({3}, DType::int32, device);
    Tensor c = Tensor::zeros({4}, DType::uint8, device);
    both(a, b, c, 7);
    CHECK(seen.kernel == device.str());
    CHECK(seen.types == std::vector<DType>{DType::float64, DType::int32, DType::uint8});
    CHECK(seen.devices == std::vector<Device>(3, device));
    CHECK(seen.number == 7);
  }
  CHECK((both.on(DeviceType::cpu) == cpu_kernel));
  CHECK((both.on(DeviceType::fake) == fake_kernel));
  CHECK((both.on(DeviceType::cuda) == nullptr));
}

TEST_CASE("what is written has its version raised, what is read has not") {
  for (const Device device : {Device::cpu(), Device::fake()}) {
    const Tensor a = Tensor::zeros({2}, DType::float32, device);
    Tensor b = Tensor::zeros({2}, DType::float32, device);
    Tensor c = Tensor::zeros({2}, DType::float32, device);
    const Tensor bystander = Tensor::zeros({2}, DType::float32, device);
    CHECK(raised({a, b, c, bystander}, [&] { both(a, b, c, 0); }) ==
          std::vector<std::uint64_t>{0, 1, 1, 0});
  }
}

TEST_CASE("a write through a view or a slice is known where it belongs") {
  const Tensor a = Tensor::zeros({2});
  Tensor whole = Tensor::zeros({4, 2});
  Tensor rows = whole.view_rows(1, 2);
  Tensor flat = Tensor::zeros({100});
  Tensor slice = flat.slice(0, {2});
  const Tensor neighbour = flat.slice(64, {2});
  const auto changes = raised({whole, slice, neighbour}, [&] { both(a, rows, slice, 0); });
  CHECK(changes == std::vector<std::uint64_t>{1, 1, 0});
}

TEST_CASE("tensors on two devices are one sentence that names both") {
  const Tensor here = Tensor::zeros({2});
  const Tensor there = Tensor::zeros({2}, DType::float32, Device::fake());
  Tensor out_here = Tensor::zeros({2});
  Tensor out_there = Tensor::zeros({2}, DType::float32, Device::fake());
  seen = {};
  check_refused([&] { both(here, out_there, out_here, 0); },
                {"both", "one tensor is on cpu and another on fake", "to(device)"});
  check_refused([&] { both(there, out_there, out_here, 0); },
                {"both", "one tensor is on fake and another on cpu"});
  check_refused([&] { both(there, out_here, out_here, 0); }, {"fake", "cpu"});
  CHECK(seen.kernel == "");
  both(here, out_here, out_here, 0);
  CHECK(seen.kernel == "cpu");
}

TEST_CASE("a refused call has written nothing, and says so by the versions") {
  const Tensor there = Tensor::zeros({2}, DType::float32, Device::fake());
  Tensor here = Tensor::zeros({2});
  constexpr Op<InOut, In> update{.name = "update", .cpu = [](InOut, In) {}};
  CHECK(raised({here}, [&] { sentence_of([&] { update(here, there); }); }) ==
        std::vector<std::uint64_t>{0});
}

TEST_CASE("absent tensors are passed on undefined, and are on no device") {
  Tensor absent;
  for (const Device device : {Device::cpu(), Device::fake()}) {
    Tensor c = Tensor::zeros({2}, DType::float32, device);
    both(Tensor{}, absent, c, 0);
    CHECK(seen.kernel == device.str());
    CHECK_FALSE(absent.defined());
    const Tensor a = Tensor::zeros({2}, DType::float32, device);
    both(a, absent, absent, 0);
    CHECK(seen.kernel == device.str());
  }
  both(absent, absent, absent, 0);  // nothing at all: the CPU
  CHECK(seen.kernel == "cpu");
}

TEST_CASE("an exception of a kernel comes out as it was thrown") {
  struct Special {
    int code;
  };
  constexpr Op<In, int> throws{.name = "throws", .cpu = [](In, int code) {
                                 check(code != 1, "one is refused");
                                 if (code == 2) {
                                   throw Special{code};
                                 }
                               }};
  const Tensor a = Tensor::zeros({2});
  CHECK(sentence_of([&] { throws(a, 1); }) == "one is refused");
  try {
    throws(a, 2);
    FAIL("nothing thrown");
  } catch (const Special& special) {
    CHECK(special.code == 2);
  }
  CHECK_NOTHROW(throws(a, 3));
}

// y = x + step + step, in whatever type the kernel is given.
void add_twice(In x, Out y, float step) {
  note("cpu", *x, *y, *y, 0);
  for (std::int64_t i = 0; i < x->numel(); ++i) {
    y->data<float>()[i] = x->data<float>()[i] + step + step;
  }
}

TEST_CASE("16-bit tensors reach a CPU kernel as float32 and are rounded once") {
  constexpr Op<In, Out, float> op{.name = "add_twice", .cpu = add_twice};
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = Tensor::full({3}, 1, dtype);
    Tensor y = Tensor::full({3}, -77, dtype);
    // The distance from 1 to the next value; a step of 0.3 of it is lost if each is rounded.
    const float unit = dtype == DType::float16 ? 0x1p-10f : 0x1p-7f;
    CHECK(raised({x, y}, [&] { op(x, y, 0.3f * unit); })[0] == 0);
    CHECK(seen.types == std::vector<DType>(3, DType::float32));
    CHECK(y.dtype() == dtype);
    CHECK(y.to(DType::float32).to_vector<float>() == std::vector<float>(3, 1 + unit));
    CHECK(raised({x, y}, [&] { op(x, y, 0); })[1] >= 1);
    CHECK(y.to(DType::float32).to_vector<float>() == std::vector<float>(3, 1.0f));
  }
  // One 16-bit argument is enough, the others stay what they are.
  const Tensor wide = Tensor::full({3}, 1);
  Tensor narrow = Tensor::zeros({3}, DType::bfloat16);
  op(wide, narrow, 0.3f * 0x1p-7f);
  CHECK(narrow.view_rows(2, 3).item() == 1 + 0x1p-7);
}

TEST_CASE("16-bit tensors with integers, absent ones and those that are read and written") {
  constexpr Op<In, InOut, Out, int> op{
      .name = "mixed", .cpu = [](In labels, InOut x, Out absent, int number) {
        note("cpu", *labels, *x, *absent, number);
        for (std::int64_t i = 0; i < x->numel(); ++i) {
          x->data<float>()[i] += static_cast<float>(labels->data<std::int64_t>()[i]);
        }
      }};
  const Tensor labels = Tensor::from({std::int64_t{1}, std::int64_t{2}}, {2});
  Tensor x = Tensor::from({float16(0.5f), float16(-0.25f)}, {2});
  Tensor absent;
  op(labels, x, absent, 4);
  CHECK(seen.types[0] == DType::int64);
  CHECK(seen.types[1] == DType::float32);
  CHECK(seen.number == 4);
  CHECK_FALSE(absent.defined());
  CHECK(x.to(DType::float32).to_vector<float>() == std::vector<float>{1.5f, 1.75f});
}

TEST_CASE("a 16-bit tensor that a kernel throws over stays as it was") {
  constexpr Op<InOut> op{.name = "fails", .cpu = [](InOut x) {
                           x->fill(9);
                           throw Error("too late");
                         }};
  Tensor x = Tensor::full({2}, 1, DType::float16);
  CHECK(sentence_of([&] { op(x); }) == "too late");
  CHECK(x.view_rows(0, 1).item() == 1);
}

}  // namespace
}  // namespace sinter
