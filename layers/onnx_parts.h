// What the ONNX forms of several layers share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinter/layers/onnx_graph.h>

namespace sinter {

using OnnxSizes = std::vector<std::int64_t>;

/// x w^T + bias, of an x with `rank` dimensions; the bias may be absent.
std::string onnx_linear(OnnxGraph& graph, const std::string& x, int rank, const Parameter& weight,
                        const Parameter& bias);

}  // namespace sinter
