#include <cstdint>
#include <unordered_map>
#include <utility>

#include <sinter/autograd/autocast.h>
#include <sinter/autograd/draw.h>
#include <sinter/autograd/function.h>
#include <sinter/autograd/functions.h>
#include <sinter/runtime/graph.h>

namespace sinter {
namespace {

thread_local Autocast* innermost = nullptr;

bool is_narrow(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

Tensor converted(const Tensor& x, DType dtype) {
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  ops::cast(x.detach(), y);
  return y;
}

}  // namespace

// Copies of parameters. One that was made while a graph is recorded belongs to that recording: the
// graph has to make it anew in each replay, and outside nobody may take it for computed.
struct Autocast::Copies {
  struct Copy {
    Tensor source;  // holds on to the elements, so that no other tensor comes to lie there
    std::uint64_t version;
    Tensor copy;
  };
  std::unordered_map<const void*, Copy> of;
  const Graph* recording = nullptr;

  static Tensor find(const std::shared_ptr<Copies>& copies, const Tensor& x, DType dtype) {
    Graph* const graph = Graph::recording();
    if (copies->recording != graph) {
      copies->of.clear();
      copies->recording = graph;
      if (graph != nullptr) {
        // A scope that has gone by then let its copies go with it, for the next step to use again.
        graph->when_recorded([weak = std::weak_ptr(copies)] {
          if (const auto left = weak.lock()) {
            left->of.clear();
            left->recording = nullptr;
          }
        });
      }
    }
    Copy& found = copies->of[x.address()];
    if (!found.copy.defined() || found.version != x.version() || found.copy.shape() != x.shape()) {
      found = {};  // its memory first
      found = {x.detach(), x.version(), converted(x, dtype)};
    }
    return found.copy;
  }
};

Autocast::Autocast(std::optional<DType> dtype)
    : dtype_(dtype), outer_(std::exchange(innermost, this)) {
  if (dtype && !is_narrow(*dtype)) {
    innermost = outer_;
    throw Error(text("Autocast: the type must be float16 or bfloat16, got ", *dtype));
  }
}

// It may end before a scope that was opened after it.
Autocast::~Autocast() {
  for (Autocast** link = &innermost; *link != nullptr; link = &(*link)->outer_) {
    if (*link == this) {
      *link = outer_;
      return;
    }
  }
}

std::optional<DType> Autocast::dtype() {
  return innermost != nullptr ? innermost->dtype_ : std::nullopt;
}

bool is_autocast(DType dtype) {
  return Autocast::dtype() && (dtype == DType::float32 || is_narrow(dtype));
}

bool fit_one_product(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() || (is_autocast(a.dtype()) && is_autocast(b.dtype()));
}

Tensor product_operand(const Tensor& x) {
  if (!x.defined() || !is_autocast(x.dtype()) || x.dtype() == *Autocast::dtype()) {
    return x.defined() ? x.detach() : x;
  }
  if (x.leaf() == nullptr) {
    return converted(x, *innermost->dtype_);
  }
  if (innermost->copies_ == nullptr) {
    innermost->copies_ = std::make_shared<Autocast::Copies>();
  }
  return Autocast::Copies::find(innermost->copies_, x, *innermost->dtype_);
}

bool wants_float32(const Tensor& x) {
  return Autocast::dtype() && x.defined() && is_narrow(x.dtype());
}

Tensor in_float32(const Tensor& x) { return wants_float32(x) ? cast(x, DType::float32) : x; }

bool is_widened(const Tensor& a, const Tensor& b) {
  return Autocast::dtype() && a.defined() && b.defined() && a.dtype() != b.dtype() &&
         is_autocast(a.dtype()) && is_autocast(b.dtype());
}

Tensor cast(const Tensor& x, DType dtype) {
  check_floating("cast", x);
  check(is_floating(dtype), "cast: expected a floating type, got ", dtype);
  if (x.dtype() == dtype) {
    return x;
  }
  Recording recording("cast", {x});
  Tensor y = converted(x, dtype);
  if (recording) {
    recording.finish(y, [from = x.dtype()](Backward& b) { b.give(0, converted(b.grad(), from)); });
  }
  return y;
}

}  // namespace sinter
