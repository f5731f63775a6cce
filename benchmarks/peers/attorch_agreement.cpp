// Repeats what attorch's fused kernels computed, on every device there is, and compares: the mask
// bit for bit, values within what the roundings of either side allow. attorch_agreement.py writes
// the file that this reads; --list prints the names that it should put there.
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/kernels/ops.h>
#include <sinter/layers/safetensors.h>
#include <sinter/runtime/device.h>

using namespace sinter;

namespace {

constexpr std::string_view dropout_alone = "dropout";

// Rounding steps that an element may be apart, in units of its type's epsilon: attorch computes the
// piecewise linear ones in the 16-bit type itself, one rounding an operation.
constexpr double steps = 4;

struct Count {
  std::int64_t elements = 0;
  std::int64_t seen = 0;  // of them, those whose value shows whether they were dropped
  std::int64_t wrong_mask = 0;
  std::int64_t wrong_value = 0;
  double worst = 0;  // of what is allowed
};

double epsilon(DType dtype) {
  return dtype == DType::float16 ? 0x1p-10 : dtype == DType::bfloat16 ? 0x1p-7 : 0x1p-23;
}

std::vector<double> doubles(const Tensor& tensor) {
  return tensor.to(Device::cpu()).to(DType::float64).to_vector<double>();
}

struct Case {
  std::optional<math::AnyActivation> act;  // none: dropout alone
  math::DropoutMask mask;
  std::vector<double> kinks;
};

// Ours: y, and dx for the incoming gradient.
std::pair<Tensor, Tensor> compute(const Case& c, const Tensor& x, const Tensor& dy) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (!c.act) {
    ops::dropout(x, y, {.mask = c.mask});
    ops::dropout(dy, dx, {.mask = c.mask});
    return {y, dx};
  }
  const ops::ActivationArgs args{c.act, {.mask = c.mask}, x.dtype()};
  ops::activation_forward(x, y, args);
  const bool from_input =
      std::visit([]<class A>(const A&) { return math::derives_from_input<A>; }, *c.act);
  ops::activation_backward(from_input ? x : y, dy, dx, args);
  return {y, dx};
}

// Beside a kink the two sides may take different branches, both right.
bool beside_kink(const Case& c, double x, double eps) {
  for (const double kink : c.kinks) {
    if (std::abs(x - kink) <= steps * eps * std::fmax(1, std::abs(kink))) {
      return true;
    }
  }
  return false;
}

// `factor`: what the activation's value, or its derivative, was multiplied by.
template <class Factor>
Count compare(const Case& c, const Tensor& theirs, const Tensor& ours, const std::vector<double>& x,
              bool backward, Factor&& factor) {
  const double eps = epsilon(theirs.dtype());
  const std::vector<double> expected = doubles(theirs);
  const std::vector<double> got = doubles(ours);
  check(expected.size() == x.size(), "a tensor of ", expected.size(),
        " elements beside an input of ", x.size());
  Count count;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (backward && beside_kink(c, x[i], eps)) {
      continue;
    }
    ++count.elements;
    if (!c.mask.keep(i)) {
      ++count.seen;
      count.wrong_mask += expected[i] != 0 || got[i] != 0;
      continue;
    }
    const double allowed =
        steps * eps * (std::abs(factor(i)) * (1 + std::abs(x[i])) + std::abs(got[i]));
    if (std::abs(got[i]) > allowed) {
      ++count.seen;
      count.wrong_mask += expected[i] == 0;
    }
    const double apart = std::abs(expected[i] - got[i]);
    count.wrong_value += !(apart <= allowed);
    count.worst = std::fmax(count.worst, apart / allowed);
  }
  return count;
}

bool agrees(const Count& count, const std::string& what) {
  const bool fine =
      count.wrong_mask == 0 && count.wrong_value == 0 && 4 * count.seen > count.elements;
  if (!fine) {
    std::printf(
        "  %-32s %lld of %lld elements show their mask; mask wrong: %lld, value wrong: %lld\n",
        what.c_str(), static_cast<long long>(count.seen), static_cast<long long>(count.elements),
        static_cast<long long>(count.wrong_mask), static_cast<long long>(count.wrong_value));
  }
  return fine;
}

struct Total {
  int compared = 0;
  int differ = 0;
  double worst = 0;
};

void run_case(const TensorFile& file, const Case& c, const std::string& name, Device device,
              Total& total) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const std::string type(name_of(dtype));
    const auto tensor = [&](const std::string& key) {
      const auto found = file.tensors.find(key);
      return found == file.tensors.end() ? Tensor{} : found->second;
    };
    const Tensor their_y = tensor(text("y.", type, ".", name));
    const Tensor their_dx = tensor(text("dx.", type, ".", name));
    const Tensor x = tensor("x." + type);
    const Tensor dy = tensor("dy." + type);
    if (!their_y.defined()) {
      continue;  // attorch has none: the script names it
    }
    check(their_dx.defined() && x.defined() && dy.defined(), "the file lacks x, dy or dx of ",
          type);
    const auto [y, dx] = compute(c, x.to(device), dy.to(device));
    const std::vector<double> inputs = doubles(x);
    const std::vector<double> gradients = doubles(dy);
    const double scale = c.mask.scale();
    const Count forward = compare(c, their_y, y, inputs, false, [&](std::size_t) { return scale; });
    const Count backward =
        compare(c, their_dx, dx, inputs, true, [&](std::size_t i) { return scale * gradients[i]; });
    total.compared += 2;
    total.differ += !agrees(forward, text(name, " ", type, " forward"));
    total.differ += !agrees(backward, text(name, " ", type, " backward"));
    total.worst = std::fmax(total.worst, std::fmax(forward.worst, backward.worst));
  }
}

bool run(const std::string& path) {
  const TensorFile file = read_safetensors(path);
  const auto seed = file.metadata.find("seed");
  const auto p = file.metadata.find("p");
  check(seed != file.metadata.end() && p != file.metadata.end(), path, ": no seed and p in it");
  const math::DropoutMask mask = math::dropout_mask(std::stod(p->second), std::stoull(seed->second),
                                                    0, 0, math::MaskScheme::triton);
  bool fine = true;
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    if (!is_available(device)) {
      std::printf("%s: SKIPPED, it is not there\n", device.str().c_str());
      continue;
    }
    Total total;
    run_case(file, {{}, mask, {}}, std::string(dropout_alone), device, total);
    math::for_each_activation([&]<class A>() {
      const auto kinks = A{}.kinks();
      run_case(file, {A{}, mask, {kinks.begin(), kinks.end()}}, std::string(A::name), device,
               total);
    });
    std::printf("seed %s, p %s, %s: %d of %d agree, the farthest at %.2f of what is allowed\n",
                seed->second.c_str(), p->second.c_str(), device.str().c_str(),
                total.compared - total.differ, total.compared, total.worst);
    fine = fine && total.differ == 0 && total.compared > 0;
  }
  return fine;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    check(argc == 2, "usage: attorch_agreement FILE or --list");
    if (std::string_view(argv[1]) == "--list") {
      std::printf("%s\n", std::string(dropout_alone).c_str());
      math::for_each_activation(
          []<class A>() { std::printf("%s\n", std::string(A::name).c_str()); });
      return 0;
    }
    return run(argv[1]) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attorch_agreement: %s\n", error.what());
    return 1;
  }
}
