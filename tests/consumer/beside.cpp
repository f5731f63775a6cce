// sinter, Eigen and spdlog in one file: neither their names nor their set-up get into each other's
// way, and both libraries compute the same.
#include <vector>

#include <Eigen/Dense>
#include <spdlog/spdlog.h>

#include <sinter/sinter.h>

int main() {
  const std::vector<float> a{1, 2, 3, 4, 5, 6};
  const std::vector<float> b{1, 0, -1, 2, 1, 0};
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix theirs =
      Eigen::Map<const Matrix>(a.data(), 2, 3) * Eigen::Map<const Matrix>(b.data(), 3, 2);
  const std::vector<float> ours =
      sinter::matmul(sinter::Tensor::from(a, {2, 3}), sinter::Tensor::from(b, {3, 2}))
          .to_vector<float>();
  const bool equal = ours == std::vector<float>(theirs.data(), theirs.data() + theirs.size());
  sinter::log::info("not shown, and not spdlog's own");
  spdlog::info("products equal: {}", equal);
  return equal && spdlog::get("sinter") == nullptr ? 0 : 1;
}
