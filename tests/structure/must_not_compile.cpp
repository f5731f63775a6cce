// Compiled by test_must_not_compile.cpp and in no program: without SINTER_MISTAKES all of it must
// compile; with it, each marked line must be an error and no other line may be.
#include <span>
#include <vector>

#include <sinter/sinter.h>

namespace sinter {

inline void what_is_right(const std::vector<float>& values) {
  [[maybe_unused]] const LeakyReLU slope{.act = {.negative_slope = 0.2f}};
  [[maybe_unused]] const LeakyReLU drop{.drop_p = 0.2f};
  [[maybe_unused]] const LeakyReLU plain{};
  [[maybe_unused]] const ReLU relu{.drop_p = 0.1f};
  [[maybe_unused]] const Dropout dropout{.p = 0.1f};
  [[maybe_unused]] Sequential model{Flatten{}, Linear{4, 2}, ReLU{}, Linear{2, 2, {.bias = false}}};
  [[maybe_unused]] const Tensor copied = Tensor::from(std::vector<float>{1, 2}, {2});
  [[maybe_unused]] const Tensor viewed = Tensor::from(std::span<const float>(values), {2});
  [[maybe_unused]] const float* read = copied.data<float>();
}

#ifdef SINTER_MISTAKES
inline void what_is_wrong(const double* pointer, const Tensor& tensor) {
  [[maybe_unused]] const auto a = LeakyReLU{0.2f};                    // must not compile
  [[maybe_unused]] const auto b = LeakyReLU(0.2);                     // must not compile
  [[maybe_unused]] const auto c = LeakyReLU(0.2f, 0.1f);              // must not compile
  [[maybe_unused]] const auto d = LeakyReLU{{}, 0.2f};                // must not compile
  [[maybe_unused]] const auto e = ReLU{0.1f};                         // must not compile
  [[maybe_unused]] const auto f = ReLU(0.1);                          // must not compile
  [[maybe_unused]] const auto g = Dropout(0.1);                       // must not compile
  [[maybe_unused]] const LeakyReLU h = 0.2f;                          // must not compile
  [[maybe_unused]] const auto i = Sequential{Linear{2, 2}, 0.1f};     // must not compile
  [[maybe_unused]] const auto j = Linear{2, 2, 0.1f};                 // must not compile
  [[maybe_unused]] const float* k = tensor.data<double>();            // must not compile
  [[maybe_unused]] const auto l = Tensor::from<float>(pointer, {2});  // must not compile
}
#endif

}  // namespace sinter
