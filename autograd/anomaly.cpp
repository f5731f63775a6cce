#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
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

  std::atomic<bool> ended{false};  // perhaps by another thread

  void before(const char* op, std::span<const detail::WatchedArg> args) override {
    check(ended || !is_capturing(), "DetectAnomaly: ", op,
          " is recorded in a graph, whose values cannot be looked at; end the scope before");
    from_ = {};
    // What is overwritten is looked at now.
    look_at_inputs(args, [&](const Tensor& input) {
      bool is_overwritten = false;
      for_each(args, true, [&](const Tensor& output) {
        is_overwritten = is_overwritten || share_elements(input, output);
      });
      return is_overwritten;
    });
  }

  void after(const char* op, std::span<const detail::WatchedArg> args) override {
    for_each(args, true, [&](const Tensor& output) {
      if (const auto found = look(output)) {
        look_at_inputs(args, [](const Tensor&) { return true; });
        throw AnomalyError(text("DetectAnomaly: ", detail::BackwardInAnomaly::place_of_op(),
                                ", op ", op, " gave ", described(*found, output), ", from ",
                                from_.empty() ? "inputs that are all finite" : from_));
      }
    });
  }

  std::optional<Finding> look(const Tensor& tensor) const {
    return ended ? std::nullopt : look_at(tensor, nan_only_);
  }

 private:
  template <class Use>
  static void for_each(std::span<const detail::WatchedArg> args, bool written, Use use) {
    for (const detail::WatchedArg& arg : args) {
      for (std::size_t i = 0; arg.is_written == written && i < arg.count; ++i) {
        use(arg.tensors[i]);
      }
    }
  }

  // Of those that `counts` says, the first that is not finite.
  template <class Counts>
  void look_at_inputs(std::span<const detail::WatchedArg> args, Counts counts) {
    int place = 0;
    for_each(args, false, [&](const Tensor& input) {
      const auto found = from_.empty() && counts(input) ? look(input) : std::nullopt;
      if (found) {
        from_ = text("its input ", place, ", which had ", described(*found, input));
      }
      ++place;
    });
  }

  bool nan_only_;
  std::string from_;  // the first input that is not finite
};

thread_local std::vector<std::shared_ptr<Watch>> scopes;

void watch_with_latest() {
  std::erase_if(scopes, [](const auto& scope) { return scope->ended.load(); });
  detail::set_op_watch(scopes.empty() ? nullptr : scopes.back().get());
}

std::optional<Finding> look(const Tensor& tensor) {
  return static_cast<Watch*>(detail::op_watch())->look(tensor);
}

std::string name(const detail::LayerName& layer) { return layer != nullptr ? *layer : "no layer"; }

}  // namespace

DetectAnomaly::DetectAnomaly(const DetectAnomalyOptions& options) {
  auto watch = std::make_shared<Watch>(options.nan_only);
  watch_ = watch;
  scopes.push_back(std::move(watch));
  watch_with_latest();
}

DetectAnomaly::~DetectAnomaly() {
  static_cast<Watch&>(*watch_).ended = true;
  watch_with_latest();
}

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
