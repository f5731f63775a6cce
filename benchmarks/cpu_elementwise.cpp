// Times the element-wise ops on one thread, in ns an element of float32, on data that stays in the
// second-level cache. bench_cpu_elementwise [NAME]: only activations whose name contains NAME.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "elementwise/timing.h"
#include <sinter/kernels/cpu/kernels.h>
#include <sinter/sinter.h>

using namespace sinter;

namespace {

constexpr std::int64_t rows = 256;
constexpr std::int64_t columns = bench::elements / rows;
constexpr std::int64_t inner = 16;  // of the small product under a fused pass
constexpr double drop = 0.1;

ops::DropoutArgs dropout_args(double p) { return {.mask = math::dropout_mask(p, 7, 0, 0)}; }

template <class A>
void print_activation() {
  const Tensor x = bench::normal({rows, columns}, 2);
  const Tensor dy = bench::normal({rows, columns}, 0.1);
  double forward[2];
  double backward[2];
  for (const int with_drop : {0, 1}) {
    const ops::ActivationArgs args{A{}, dropout_args(with_drop * drop), DType::float32};
    Tensor y = Tensor::empty(x.shape());
    Tensor dx = Tensor::empty(x.shape());
    forward[with_drop] = bench::ns_an_element([&] { ops::activation_forward(x, y, args); });
    const Tensor& kept = math::derives_from_input<A> ? x : y;
    backward[with_drop] =
        bench::ns_an_element([&] { ops::activation_backward(kept, dy, dx, args); });
  }
  std::printf("%-14s %9.2f %9.2f %9.2f %9.2f\n", std::string(A::name).c_str(), forward[0],
              forward[1], backward[0], backward[1]);
  std::fflush(stdout);
}

void print_mask() {
  const Tensor x = bench::normal({rows, columns}, 2);
  Tensor y = Tensor::empty(x.shape());
  const double ns = bench::ns_an_element([&] { ops::dropout(x, y, dropout_args(drop)); });
  std::printf("%-38s %9.2f\n", "dropout alone", ns);
}

/// What bias, activation and dropout add to a product behind which they run as one pass.
template <class A>
void print_fused() {
  const Tensor x = bench::normal({rows, inner}, 1);
  const Tensor weight = bench::normal({columns, inner}, 0.25);
  const Tensor bias = bench::normal({columns}, 0.1);
  const ops::ActivationArgs args{A{}, dropout_args(drop), DType::float32};
  Tensor y = Tensor::empty({rows, columns});
  Tensor z = math::derives_from_input<A> ? Tensor::empty(y.shape()) : Tensor{};
  Tensor none;
  const double product = bench::ns_an_element(
      [&] { ops::linear_forward(x, weight, none, none, y, ops::ActivationArgs{}); });
  const double all =
      bench::ns_an_element([&] { ops::linear_forward(x, weight, bias, z, y, args); });
  const std::string name = text("bias + ", A::name, " + dropout behind a product");
  std::printf("%-38s %9.2f\n", name.c_str(), all - product);
}

/// The functions that activations are made of, as the kernels' copy in use has them.
void print_functions() {
  const auto& table = cpu::kernels<float>();
  const Tensor any = bench::normal({bench::elements}, 2);
  Tensor positive = bench::normal({bench::elements}, 2);
  for (std::int64_t i = 0; i < positive.numel(); ++i) {
    positive.data<float>()[i] = std::abs(positive.data<float>()[i]);
  }
  Tensor y = Tensor::empty(any.shape());
  const auto print = [&y](const char* name, const Tensor& x, cpu::Function<float> function) {
    const double ns =
        bench::ns_an_element([&] { function(x.raw<float>(), y.raw<float>(), x.numel()); });
    std::printf("%-38s %9.2f\n", name, ns);
  };
  print("exp", any, table.exp);
  print("log", positive, table.log);
  print("expm1", any, table.expm1);
  print("log1p", positive, table.log1p);
  print("tanh", any, table.tanh);
  print("erf", any, table.erf);
}

void run(std::string_view only) {
  set_num_threads(1);
  std::printf("%s\nns an element of float32, one thread, %lld elements; medians of %d\n\n",
              build_info().c_str(), static_cast<long long>(bench::elements), bench::repetitions);
  std::printf("%-14s %19s %19s\n", "", "forward", "backward");
  std::printf("%-14s %9s %9.1f %9s %9.1f\n", "dropout", "none", drop, "none", drop);
  math::for_each_activation([&]<class A>() {
    if (A::name.find(only) != std::string_view::npos) {
      print_activation<A>();
    }
  });
  std::printf("\n");
  print_functions();
  std::printf("\n");
  print_mask();
  print_fused<math::ReLU>();
  print_fused<math::GELU>();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_cpu_elementwise: %s\n", error.what());
    return 1;
  }
}
