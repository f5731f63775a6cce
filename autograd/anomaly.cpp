#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <sinter/autograd/anomaly.h>
#include <sinter/runtime/capture.h>
#include <sinter/runtime/text.h>

namespace sinter {
namespace {

thread_local detail::LayerName layer_here;

struct Finding {
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  std::int64_t first = 0;
};

template <class T>
std::optional<Finding> look_at(const Tensor& host, bool nan_only) {
  Finding found;
  const T* const values = host.data<T>();
  for (std::int64_t i = host.numel(); i-- > 0;) {
    const bool is_nan = std::isnan(values[i]);
    if (is_nan || (!nan_only && std::isinf(values[i]))) {
      ++(is_nan ? found.nan : found.infinite);
      found.first = i;
    }
  }
  return found.nan + found.infinite == 0 ? std::nullopt : std::optional(found);
}

std::optional<Finding> look_at(const Tensor& tensor, bool nan_only) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) {
    return std::nullopt;
  }
  const Tensor host = detail::staged_copy(tensor);
  return host.dtype() == DType::float64 ? look_at<double>(host, nan_only)
                                        : look_at<float>(host, nan_only);
}

std::string position(const Shape& shape, std::int64_t element) {
  std::string out = "]";
  for (int dim = shape.rank(); dim-- > 0; element /= shape[dim]) {
    out = (dim > 0 ? ", " : "") + std::to_string(element % shape[dim]) + out;
  }
  return "[" + out;
}

// "3 NaN and 1 infinity in float32 [64, 256], the first at [0, 5]"
std::string described(const Finding& found, const Tensor& in) {
  std::string out = found.nan > 0 ? std::to_string(found.nan) + " NaN" : "";
  if (found.infinite > 0) {
    out += (out.empty() ? "" : " and ") + std::to_string(found.infinite) +
           (found.infinite == 1 ? " infinity" : " infinities");
  }
  return text(out, " in ", in.dtype(), " ", in.shape(), ", the first at ",
              position(in.shape(), found.first));
}

bool share_elements(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.storage() == b.storage();
}

class Watch : public detail::OpWatch {
 public:
  explicit Watch(bool nan_only) : nan_only_(nan_only) {}

  void before(const char* op, std::span<const detail::WatchedArg> args) override {
    if (looking_) {
      return;
    }
    check(!is_capturing(), "DetectAnomaly: ", op,
          " is recorded in a graph, whose values cannot be looked at; end the scope before");
    op_ = op;
    read_.clear();
    written_.clear();
    from_ = {};
    for (const detail::WatchedArg& arg : args) {
      auto& list = arg.is_written ? written_ : read_;
      for (std::size_t i = 0; i < arg.count; ++i) {
        list.push_back(arg.tensors + i);
      }
    }
    for (std::size_t i = 0; i < read_.size(); ++i) {
      for (const Tensor* written : written_) {
        if (share_elements(*read_[i], *written)) {
          look_at_input(i);  // which will be gone
        }
      }
    }
  }

  void after() override {
    if (looking_) {
      return;
    }
    for (const Tensor* written : written_) {
      if (const auto found = look(*written)) {
        for (std::size_t i = 0; i < read_.size(); ++i) {
          look_at_input(i);
        }
        throw AnomalyError(text("DetectAnomaly: ", detail::BackwardInAnomaly::place_of_op(),
                                ", op ", op_, " gave ", described(*found, *written), ", from ",
                                from_.empty() ? "inputs that are all finite" : from_));
      }
    }
  }

  std::optional<Finding> look(const Tensor& tensor) {
    looking_ = true;  // converting a copy is an op too
    try {
      auto found = look_at(tensor, nan_only_);
      looking_ = false;
      return found;
    } catch (...) {
      looking_ = false;
      throw;
    }
  }

 private:
  void look_at_input(std::size_t i) {
    const auto found = from_.empty() ? look(*read_[i]) : std::nullopt;
    if (found) {
      from_ = text("its input ", i, ", which had ", described(*found, *read_[i]));
    }
  }

  bool nan_only_;
  bool looking_ = false;
  const char* op_ = "";
  std::vector<const Tensor*> read_, written_;
  std::string from_;  // the first input that is not finite
};

std::optional<Finding> look(const Tensor& tensor) {
  return static_cast<Watch*>(detail::op_watch())->look(tensor);
}

std::string name(const detail::LayerName& layer) { return layer != nullptr ? *layer : "no layer"; }

}  // namespace

DetectAnomaly::DetectAnomaly(const DetectAnomalyOptions& options)
    : watch_(std::make_unique<Watch>(options.nan_only)),
      outer_(detail::exchange_op_watch(watch_.get())) {}

DetectAnomaly::~DetectAnomaly() { detail::exchange_op_watch(outer_); }

namespace detail {

thread_local BackwardInAnomaly::Function BackwardInAnomaly::current;

BackwardInAnomaly::BackwardInAnomaly() : outer_(std::exchange(current, {})) {}

BackwardInAnomaly::~BackwardInAnomaly() { current = outer_; }

void BackwardInAnomaly::enter(const std::string& function, const LayerName& layer) const {
  current = {&function, &layer};
}

std::string BackwardInAnomaly::place_of_op() {
  if (current.name != nullptr) {
    return "in backward of " + *current.name + ", recorded by " + name(*current.layer);
  }
  return layer_here != nullptr ? "in forward of " + *layer_here : "outside of layers and backward";
}

LayerName exchange_layer_in_anomaly(LayerName layer) {
  return std::exchange(layer_here, std::move(layer));
}

LayerName check_recorded(const std::string& function, const Tensor& output) {
  if (const auto found = look(output)) {
    throw AnomalyError(text("DetectAnomaly: ", BackwardInAnomaly::place_of_op(), ", function ",
                            function, " gave ", described(*found, output)));
  }
  return layer_here;
}

void check_given_gradient(const std::string& function, int input, const Tensor& gradient) {
  if (const auto found = look(gradient)) {
    throw AnomalyError(text("DetectAnomaly: ", BackwardInAnomaly::place_of_op(), ", function ",
                            function, " gave its input ", input, " a gradient with ",
                            described(*found, gradient)));
  }
}

}  // namespace detail
}  // namespace sinter
