// The checks, and the table that says which op is checked by which. A new layer is one line there
// and one function.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "arguments.h"
#include "compare.h"
#include "golden_file.h"
#include <sinter/layers/module.h>
#include <sinter/runtime/device.h>
#include <sinter/runtime/dtype.h>

namespace golden {

/// Where and in what type a case is computed.
struct Setup {
  sinter::Device device;
  sinter::DType dtype = sinter::DType::float32;
};

/// Thrown by a check for what sinter does not have: the case is skipped, never passed.
struct NotYet : std::runtime_error {
  explicit NotYet(const std::string& op) : std::runtime_error("no " + op + " yet") {}
};

/// Computes what a case lists and compares all of it.
using Check = void (*)(const Case& c, const Setup& setup, Report& report);

/// The check of an op, or nullptr where sinter does not have the op.
Check find_check(std::string_view op);

void check_activation(const Case& c, const Setup& setup, Report& report);
void check_linear(const Case& c, const Setup& setup, Report& report);
void check_layer_norm(const Case& c, const Setup& setup, Report& report);
void check_rms_norm(const Case& c, const Setup& setup, Report& report);
template <class Layer>
void check_batch_norm(const Case& c, const Setup& setup, Report& report);
template <class Layer>
void check_softmax(const Case& c, const Setup& setup, Report& report);
void check_attention(const Case& c, const Setup& setup, Report& report);
void check_glu(const Case& c, const Setup& setup, Report& report);
void check_conv1d(const Case& c, const Setup& setup, Report& report);
void check_conv2d(const Case& c, const Setup& setup, Report& report);
void check_avg_pool1d(const Case& c, const Setup& setup, Report& report);
template <class Layer>
void check_pool2d(const Case& c, const Setup& setup, Report& report);
void check_adaptive_avg_pool2d(const Case& c, const Setup& setup, Report& report);
void check_flatten(const Case& c, const Setup& setup, Report& report);
void check_cross_entropy(const Case& c, const Setup& setup, Report& report);
void check_nll(const Case& c, const Setup& setup, Report& report);
template <class Loss>
void check_pointwise_loss(const Case& c, const Setup& setup, Report& report);
void check_optimizer(const Case& c, const Setup& setup, Report& report);
void check_clip_grad_norm(const Case& c, const Setup& setup, Report& report);
void check_schedule(const Case& c, const Setup& setup, Report& report);
void check_training(const Case& c, const Setup& setup, Report& report);

// What several checks need. -----------------------------------------------------------------------

/// A tensor of the case on the device; floating ones converted to the type.
sinter::Tensor load(const Case& c, const std::string& name, const Setup& setup);

/// Moves a module to the device and type and gives each of its parameters the case's tensor
/// `prefix` + name.
void load_parameters(sinter::Module& module, const Case& c, const std::string& prefix,
                     const Setup& setup);

/// The optimizer of that torch.optim name over the parameters; the function makes one step.
/// Throws NotYet where sinter has it not, or not with these arguments.
std::function<void()> make_optimizer(const std::string& name, Arguments& args,
                                     const sinter::Parameters& parameters);

}  // namespace golden
