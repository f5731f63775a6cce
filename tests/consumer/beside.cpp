// sinter, Eigen and spdlog in one file: neither their names nor their set-up get into each other's
// way.
#include <Eigen/Dense>
#include <spdlog/spdlog.h>

#include <sinter/sinter.h>

double beside_other_libraries(const sinter::Tensor& tensor) {
  const std::vector<float> values = tensor.to_vector<float>();
  const Eigen::Map<const Eigen::MatrixXf> matrix(values.data(), tensor.size(1), tensor.size(0));
  const Eigen::MatrixXf square = matrix * matrix.transpose();
  spdlog::info("{} values, trace {}", values.size(), square.trace());
  return spdlog::get("sinter") == nullptr ? square.trace() : -1.0;
}
