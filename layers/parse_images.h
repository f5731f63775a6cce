// The words of Sequential::parse for images and sequences.
#pragma once

#include <sinter/layers/model_text.h>
#include <sinter/layers/sequential.h>

namespace sinter {

void add_conv1d(const LayerCall& call, Sequential& model);
void add_conv2d(const LayerCall& call, Sequential& model);
void add_max_pool2d(const LayerCall& call, Sequential& model);
void add_avg_pool1d(const LayerCall& call, Sequential& model);
void add_avg_pool2d(const LayerCall& call, Sequential& model);
void add_adaptive_avg_pool2d(const LayerCall& call, Sequential& model);

}  // namespace sinter
