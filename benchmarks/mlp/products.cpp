// The matrix products of a recipe's steps and nothing else, by Eigen with its own threads: what no
// training step on Eigen can beat, and so the mark for one that is not. Prints samples/s.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include <Eigen/Core>

#include "recipe.h"

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// x [batch, in] is the output of the layer below, as y [batch, out] is the input of that above.
struct Layer {
  Matrix weight;  // [out, in]
  Matrix weight_gradient;
  Matrix y;
  Matrix y_gradient;
};

void step(const Matrix& x, std::vector<Layer>& layers) {
  const Matrix* input = &x;
  for (Layer& layer : layers) {
    layer.y.noalias() = *input * layer.weight.transpose();
    input = &layer.y;
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    const Matrix& below = i == 0 ? x : layers[i - 1].y;
    layers[i].weight_gradient.noalias() = layers[i].y_gradient.transpose() * below;
    if (i > 0) {
      layers[i - 1].y_gradient.noalias() = layers[i].y_gradient * layers[i].weight;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Recipe recipe = bench::parse(argc, argv);
  Eigen::setNbThreads(recipe.threads);
  const Matrix x = Matrix::Random(recipe.batch, recipe.sizes[0]);
  std::vector<Layer> layers;
  for (std::size_t i = 0; i + 1 < recipe.sizes.size(); ++i) {
    const auto in = recipe.sizes[i];
    const auto out = recipe.sizes[i + 1];
    layers.push_back({Matrix::Random(out, in) / std::sqrt(static_cast<float>(in)),
                      Matrix::Zero(out, in), Matrix::Zero(recipe.batch, out),
                      Matrix::Random(recipe.batch, out)});
  }
  double seconds = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < recipe.steps(); ++i) {
      step(x, layers);
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (!std::isfinite(layers[0].weight_gradient.sum())) {
    std::fprintf(stderr, "%s: a product is not finite\n", argv[0]);
    return 1;
  }
  std::printf("%.1f\n", static_cast<double>(recipe.items) / seconds);
}
