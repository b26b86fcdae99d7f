// The nonlinear middle of a feed-forward layer, fused with its dropout.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "models/nn/dropout.h"

namespace trainer::nn {

enum class Activation { kRelu, kGelu, kGeluNew, kSilu, kQuickGelu, kTanh };

/// The activation that Hugging Face's config.json calls `name`: "gelu_pytorch_tanh", "swish"; none: not one of ours.
std::optional<Activation> activation_of(std::string_view name);
/// The names that activation_of knows, for messages: "relu, gelu, ...".
std::string activation_names();

/// dropout(act(x)), x [T, F]. ReLU keeps one bit an element for its backward; the others keep x.
at::Tensor activate(const at::Tensor& x, Activation activation, const DropoutRule& rule, const LayoutPtr& layout);

/// dropout(act(gate) * up), gate and up [T, F]. Keeps gate and up; everything else is computed again.
at::Tensor activate_gated(const at::Tensor& gate, const at::Tensor& up, Activation activation, const DropoutRule& rule,
                          const LayoutPtr& layout);

}  // namespace trainer::nn
