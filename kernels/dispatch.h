// How an op finds its kernel. An op is a name, typed arguments and one function for each device; a
// device without one runs the op on the reference CPU path, over copies. This is the only place
// that chooses devices, copies for the fallback, and raises the versions of what is written.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter {

/// A tensor argument that a kernel reads. An undefined tensor stands for an absent one.
class In {
 public:
  In(const Tensor& tensor) : tensor_(&tensor) {}
  const Tensor& operator*() const { return *tensor_; }
  const Tensor* operator->() const { return tensor_; }

 private:
  const Tensor* tensor_;
};

/// A tensor argument whose elements a kernel overwrites, all of them.
class Out {
 public:
  Out(Tensor& tensor) : tensor_(&tensor) {}
  Tensor& operator*() const { return *tensor_; }
  Tensor* operator->() const { return tensor_; }

 private:
  Tensor* tensor_;
};

/// A tensor argument that a kernel reads and changes.
class InOut : public Out {
 public:
  using Out::Out;
};

/// Any number of tensor arguments that a kernel reads.
class Ins {
 public:
  Ins(const std::vector<Tensor>& tensors) : tensors_(tensors) {}
  std::size_t size() const { return tensors_.size(); }
  const Tensor& operator[](std::size_t i) const { return tensors_[i]; }

 private:
  std::span<const Tensor> tensors_;
};

/// Any number of tensor arguments that a kernel reads and changes.
class InOuts {
 public:
  InOuts(std::vector<Tensor>& tensors) : tensors_(tensors) {}
  std::size_t size() const { return tensors_.size(); }
  Tensor& operator[](std::size_t i) const { return tensors_[i]; }

 private:
  std::span<Tensor> tensors_;
};

/// What a call does for which the device has no kernel.
enum class FallbackPolicy : std::uint8_t {
  warn,    ///< runs on the CPU; the first time for each op, a warning names it
  silent,  ///< runs on the CPU
  error    ///< throws Error
};
void set_fallback_policy(FallbackPolicy policy);
/// Calls that fell back to the CPU since the start, of all ops or of one.
std::int64_t fallback_count();
std::int64_t fallback_count(std::string_view op);

namespace detail {

/// A tensor argument of a call, or several, as an OpWatch is shown it.
struct WatchedArg {
  const Tensor* tensors = nullptr;
  std::size_t count = 0;  ///< 0 for a plain value
  bool is_written = false;
};
inline WatchedArg watched(const In& arg) { return {&*arg, 1, false}; }
inline WatchedArg watched(const Out& arg) { return {&*arg, 1, true}; }
inline WatchedArg watched(const InOut& arg) { return {&*arg, 1, true}; }
inline WatchedArg watched(const Ins& args) {
  return {args.size() == 0 ? nullptr : &args[0], args.size(), false};
}
inline WatchedArg watched(const InOuts& args) {
  return {args.size() == 0 ? nullptr : &args[0], args.size(), true};
}
template <class Other>
WatchedArg watched(const Other&) {
  return {};
}

/// Sees every call of an op on its thread; see autograd/anomaly.h.
class OpWatch {
 public:
  virtual ~OpWatch() = default;
  virtual void before(const char* op, std::span<const WatchedArg> args) = 0;
  /// The same once more, unless the kernel threw. Calls may be nested: a kernel may run ops.
  virtual void after(const char* op, std::span<const WatchedArg> args) = 0;
};
/// Threads that have a watch, so that without any a call costs a look at this.
extern std::atomic<int> op_watches;
OpWatch* watch_of_thread();
/// Null: none.
void set_op_watch(OpWatch* watch);
inline OpWatch* op_watch() {
  return op_watches.load(std::memory_order_relaxed) == 0 ? nullptr : watch_of_thread();
}

/// The type in which the reference path takes elements of `dtype`.
inline DType staged_dtype(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype;
}

/// Collects what the tensor arguments of a call have in common.
class CallSite {
 public:
  explicit CallSite(const char* op) : op_(op) {}
  void see(const In& arg) { see(*arg); }
  void see(const Out& arg) { see(*arg); }
  void see(const InOut& arg) { see(*arg); }
  void see(const Ins& args) { see_all(args); }
  void see(const InOuts& args) { see_all(args); }
  template <class Other>
  void see(const Other&) {}

  DeviceType device_type() const { return device_.type; }
  bool has_16_bit() const { return has_16_bit_; }
  bool has_float64() const { return has_float64_; }
  /// Warns, counts or throws, as the policy says.
  void note_fallback() const;

 private:
  void see(const Tensor& tensor) {
    if (!tensor.defined()) {
      return;
    }
    const Device device = tensor.device();
    if (seen_ && device != device_) [[unlikely]] {
      refuse(device);
    }
    device_ = device;
    seen_ = true;
    has_16_bit_ = has_16_bit_ || staged_dtype(tensor.dtype()) != tensor.dtype();
    has_float64_ = has_float64_ || tensor.dtype() == DType::float64;
  }
  template <class List>
  void see_all(const List& args) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      see(args[i]);
    }
  }
  [[noreturn]] void refuse(Device other) const;

  const char* op_;
  Device device_;
  bool seen_ = false;
  bool has_16_bit_ = false;
  bool has_float64_ = false;
};

/// A kernel is about to write: even one that fails half way has.
inline void mark_written(const Out& arg) { arg->mark_written(); }
inline void mark_written(const InOut& arg) { arg->mark_written(); }
inline void mark_written(const InOuts& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    args[i].mark_written();
  }
}
template <class Other>
void mark_written(const Other&) {}

/// The stand-in for an argument on the reference path: on the CPU, 16-bit elements as float32.
Tensor staged_copy(const Tensor& tensor);
Tensor staged_empty(const Tensor& tensor);
void unstage(const Tensor& staged, Tensor& original);

template <class Arg>
struct Staged {
  Arg arg;
  explicit Staged(const Arg& original) : arg(original) {}
  Arg get() { return arg; }
  void finish() {}
};
template <>
struct Staged<In> {
  Tensor local;
  explicit Staged(const In& original) : local(staged_copy(*original)) {}
  In get() { return local; }
  void finish() {}
};
template <>
struct Staged<Out> {
  Out original;
  Tensor local;
  explicit Staged(const Out& arg) : original(arg), local(staged_empty(*arg)) {}
  Out get() { return local; }
  void finish() { unstage(local, *original); }
};
template <>
struct Staged<InOut> {
  InOut original;
  Tensor local;
  explicit Staged(const InOut& arg) : original(arg), local(staged_copy(*arg)) {}
  InOut get() { return local; }
  void finish() { unstage(local, *original); }
};
template <>
struct Staged<Ins> {
  std::vector<Tensor> local;
  explicit Staged(const Ins& args) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      local.push_back(staged_copy(args[i]));
    }
  }
  Ins get() { return local; }
  void finish() {}
};
template <>
struct Staged<InOuts> {
  InOuts originals;
  std::vector<Tensor> local;
  explicit Staged(const InOuts& args) : originals(args) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      local.push_back(staged_copy(args[i]));
    }
  }
  InOuts get() { return local; }
  void finish() {
    for (std::size_t i = 0; i < local.size(); ++i) {
      unstage(local[i], originals[i]);
    }
  }
};

}  // namespace detail

/// One row of the op table. Arguments are In, Out and InOut tensors, lists of them, and plain
/// values; kernels take them in the same order. All tensors of a call live on one device. CPU
/// kernels see float64, float32 and integers: float16 and bfloat16 reach them as float32 and are
/// rounded once on the way back. CUDA kernels see all but float64, which a GPU is slow at: it falls
/// back.
template <class... Args>
struct Op {
  using Kernel = void (*)(Args...);

  const char* name;
  Kernel cpu;
  Kernel cuda = nullptr;
  Kernel fake = nullptr;
  bool moves_bytes = false;  ///< the CPU kernel takes 16-bit elements as they are

  /// Throws Error where the tensors live on different devices, and what the kernel throws.
  void operator()(std::type_identity_t<Args>... args) const {
    detail::OpWatch* const watch = detail::op_watch();
    const auto seen = [&] {
      return std::array<detail::WatchedArg, sizeof...(Args)>{detail::watched(args)...};
    };
    if (watch != nullptr) [[unlikely]] {
      watch->before(name, seen());
    }
    detail::CallSite site(name);
    (site.see(args), ...);
    const bool takes = site.device_type() != DeviceType::cuda || !site.has_float64();
    const Kernel kernel = takes ? on(site.device_type()) : nullptr;
    if (kernel == nullptr) {
      site.note_fallback();
    }
    if (kernel == nullptr ||
        (site.device_type() == DeviceType::cpu && site.has_16_bit() && !moves_bytes)) {
      std::tuple<detail::Staged<std::remove_cvref_t<Args>>...> staged{
          detail::Staged<std::remove_cvref_t<Args>>(args)...};
      std::apply([this](auto&... arg) { cpu(arg.get()...); }, staged);
      std::apply([](auto&... arg) { (arg.finish(), ...); }, staged);
    } else {
      (detail::mark_written(args), ...);
      kernel(args...);
    }
    if (watch != nullptr) [[unlikely]] {
      watch->after(name, seen());
    }
  }

  Kernel on(DeviceType type) const {
    switch (type) {
      case DeviceType::cuda:
        return cuda;
      case DeviceType::fake:
        return fake;
      case DeviceType::cpu:
        break;
    }
    return cpu;
  }
};

}  // namespace sinter
