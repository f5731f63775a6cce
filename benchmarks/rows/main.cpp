// Times softmax, norms, batch norms and gated linear units on the GPU against a copy of the same
// bytes, forward and backward. bench_rows --help says what can be chosen.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "../elementwise/cuda/replay.h"
#include "../json_file.h"
#include "../median.h"
#include <sinter/kernels/ops.h>
#include <sinter/runtime/build_info.h>
#include <sinter/runtime/cuda/check.h>
#include <sinter/runtime/device.h>
#include <sinter/runtime/error.h>

using namespace sinter;

namespace {

// Tensors are taken in turn, so that none is still in a cache.
constexpr int turns = 6, launches = 24;

struct Timed {
  std::string name, direction;
  double tensors;  // that must move, of the size of x
  std::unique_ptr<bench::Replay> replay;
  std::vector<double> times;
};

class Cases {
 public:
  Cases(std::int64_t rows, std::int64_t columns, DType dtype) : shape_{rows, columns} {
    const Device device = Device::cuda();
    for (int i = 0; i < turns; ++i) {
      x_.push_back(Tensor::full(shape_, 0.5 + i, dtype, device));
      dy_.push_back(Tensor::full(shape_, 0.25, dtype, device));
      out_.push_back(Tensor::empty(shape_, dtype, device));
      kept_.push_back(Tensor::full(shape_, 1, dtype, device));
      other_.push_back(Tensor::empty(shape_, dtype, device));
      half_dy_.push_back(dy_.back().view_rows(0, rows / 2).reshape({rows, columns / 2}));
      half_out_.push_back(out_.back().view_rows(0, rows / 2).reshape({rows, columns / 2}));
    }
    weight_ = Tensor::full({columns}, 1, dtype, device);
    bias_ = Tensor::full({columns}, 0, dtype, device);
    dw_ = Tensor::empty({columns}, dtype, device);
    db_ = Tensor::empty({columns}, dtype, device);
    mean_ = Tensor::full({rows}, 0, DType::float32, device);
    rstd_ = Tensor::full({rows}, 1, DType::float32, device);
    add_copy();
    add_softmax("softmax", {});
    add_softmax("log_softmax", {.log = true});
    const ops::DropoutArgs dropout{math::dropout_mask(0.1, 1, 2, 3)};
    add_softmax("softmax, dropout", {.dropout = dropout});
    add_norm("layer_norm", true, {});
    add_norm("rms_norm", false, {});
    add_norm("layer_norm, gelu, dropout", true, {math::GELU{}, dropout});
    add_norm("rms_norm, silu, dropout", false, {math::SiLU{}, dropout});
    add_batch_norm("batch_norm", shape_, {});
    add_batch_norm("batch_norm, relu", shape_, {math::ReLU{}, {}});
    if (rows % 64 == 0 && columns >= 64) {
      add_batch_norm("batch_norm 2d", {rows / 64, 64, columns}, {});
    }
    add_glu("swiglu", {math::SiLU{}, {}});
    add_glu("swiglu, dropout", {math::SiLU{}, dropout});
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (Timed& one : timed_) {
        one.times.push_back(one.replay->time());
      }
    }
  }
  const std::vector<Timed>& timed() const { return timed_; }

 private:
  void add(const std::string& name, const std::string& direction, double tensors,
           std::function<void(std::size_t)> launch) {
    timed_.push_back({name,
                      direction,
                      tensors,
                      std::make_unique<bench::Replay>(
                          Device::cuda(), launches, false,
                          [launch](int i) { launch(static_cast<std::size_t>(i % turns)); }),
                      {}});
  }
  void add_copy() {
    add("copy", "", 2, [this](std::size_t i) {
      cuda::check(cudaMemcpyAsync(out_[i].address(), x_[i].address(), x_[i].bytes(),
                                  cudaMemcpyDeviceToDevice, cuda::use(0)),
                  "cudaMemcpyAsync");
    });
  }
  void add_softmax(const std::string& name, const ops::SoftmaxArgs& args) {
    add(name, "forward", 2, [=, this](std::size_t i) { ops::softmax(x_[i], out_[i], args); });
    add(name, "backward", 3,
        [=, this](std::size_t i) { ops::softmax_backward(x_[i], dy_[i], out_[i], args); });
  }
  void add_norm(const std::string& name, bool centred, const ops::ActivationArgs& tail) {
    add(name, "forward", 2, [=, this](std::size_t i) {
      ops::norm_forward(x_[i], weight_, centred ? bias_ : none_, out_[i], centred ? mean_ : none_,
                        rstd_, {1e-5, tail});
    });
    add(name, "backward", 3, [=, this](std::size_t i) {
      ops::norm_backward(x_[i], weight_, centred ? bias_ : none_, centred ? mean_ : none_, rstd_,
                         dy_[i], out_[i], dw_, centred ? db_ : none_, tail, {});
    });
  }
  // Statistics have to see all of x before the first element of y, so it moves twice, as x and the
  // gradient do in backward; with a tail and a residual that is read, dz is written and read too.
  void add_batch_norm(const std::string& name, const Shape& shape,
                      const ops::ActivationArgs& tail) {
    const bool has_tail = tail.act.has_value();
    const ops::NormArgs args{1e-5, tail};
    const auto of_channels = [c = shape[1]](const Tensor& all) { return all.view_rows(0, c); };
    const Tensor weight = of_channels(weight_), bias = of_channels(bias_);
    std::vector<Tensor> of_batch, running;
    for (const double value : {0, 1}) {
      of_batch.push_back(Tensor::full({shape[1]}, value, DType::float32, Device::cuda()));
      running.push_back(of_batch.back().clone());
    }
    const Tensor batches = Tensor::zeros({}, DType::int64, Device::cuda());
    const Tensor sums = Tensor::zeros({2, shape[1]}, DType::float32, Device::cuda());
    add(name, "forward", has_tail ? 4 : 3, [=, this](std::size_t i) {
      const Tensor x = x_[i].reshape(shape);
      Tensor mean = of_batch[0], var = of_batch[1], y = out_[i].reshape(shape), count = batches;
      Tensor running_mean = running[0], running_var = running[1];
      ops::batch_norm_statistics(x, mean, var, running_mean, running_var, count, 0.1);
      ops::batch_norm_forward(x, mean, var, weight, bias,
                              has_tail ? dy_[i].reshape(shape) : Tensor{}, y, args);
    });
    add(name, "backward", has_tail ? 7 : 5, [=, this](std::size_t i) {
      const Tensor x = x_[i].reshape(shape), dy = dy_[i].reshape(shape);
      const Tensor mean = of_batch[0], var = of_batch[1];
      const Tensor y = has_tail ? kept_[i].reshape(shape) : Tensor{};
      Tensor dz = has_tail ? other_[i].reshape(shape) : Tensor{}, dx = out_[i].reshape(shape);
      Tensor of_z = sums, dw = of_channels(dw_), db = of_channels(db_);
      ops::batch_norm_backward_sums(x, mean, var, weight, bias, y, dy, dz, of_z, dw, db, args, {});
      ops::batch_norm_backward(x, mean, var, weight, has_tail ? dz : dy, of_z, dx, 1e-5);
    });
  }
  void add_glu(const std::string& name, const ops::ActivationArgs& args) {
    add(name, "forward", 1.5,
        [=, this](std::size_t i) { ops::glu_forward(x_[i], half_out_[i], args); });
    add(name, "backward", 2.5,
        [=, this](std::size_t i) { ops::glu_backward(x_[i], half_dy_[i], out_[i], args); });
  }

  Shape shape_;
  std::vector<Tensor> x_, dy_, out_, kept_, other_, half_dy_, half_out_;
  Tensor weight_, bias_, dw_, db_, mean_, rstd_, none_;
  std::vector<Timed> timed_;
};

}  // namespace

int main(int argc, char** argv) {
  std::int64_t rows = 4096, columns = 4096;
  int rounds = 11;
  std::string json;
  CLI::App app{
      "Times softmax, norms, batch norms and gated linear units on the GPU against a copy."};
  app.add_option("--rows", rows, "rows, an even number")->capture_default_str();
  app.add_option("--columns", columns, "columns, an even number")->capture_default_str();
  app.add_option("--rounds", rounds, "medians of so many")->capture_default_str();
  app.add_option("--json", json, "also write the results to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    require_available(Device::cuda());
    check(rows > 0 && columns > 0 && rows % 2 == 0 && columns % 2 == 0 && rounds > 0,
          "rows and columns must be positive and even, rounds positive");
    std::printf("%s\nmedians of %d; %% of a copy of as many bytes as must move\n",
                build_info().c_str(), rounds);
    nlohmann::json written = nlohmann::json::array();
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      Cases cases(rows, columns, dtype);
      cases.run(rounds);
      const double copy = bench::median(cases.timed().front().times) / 2;  // of one tensor
      for (const Timed& one : cases.timed()) {
        const double us = bench::median(one.times), percent = 100 * copy * one.tensors / us;
        std::printf("%-26s %-9s %-9s %8.2f us %6.1f %%\n", one.name.c_str(), one.direction.c_str(),
                    std::string(name_of(dtype)).c_str(), us, percent);
        written.push_back({{"name", one.name},
                           {"direction", one.direction},
                           {"dtype", name_of(dtype)},
                           {"us", us},
                           {"percent", percent}});
      }
    }
    if (!json.empty()) {
      bench::write_json_file(json, written);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_rows: %s\n", error.what());
    return 1;
  }
}
