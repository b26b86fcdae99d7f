// The nonlinear middle of a feed-forward layer, fused with its dropout.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "models/nn/activation.h"
#include "models/nn/dropout.h"

namespace trainer::nn {

/// The activation that Hugging Face's config.json calls `name` ("gelu_pytorch_tanh", "swish"); none if not supported.
std::optional<Activation> activation_of(std::string_view name);
/// The names that activation_of knows, for messages: "relu, gelu, ...".
std::string activation_names();

/// dropout(act(x)), x [T, F]. ReLU saves one bit per element for backward; the others save x.
at::Tensor activate(const at::Tensor& x, Activation activation, const DropoutRule& rule, const LayoutPtr& layout);

/// dropout(act(gate) * up), gate and up [T, F]. Saves gate and up; backward recomputes everything else.
at::Tensor activate_gated(const at::Tensor& gate, const at::Tensor& up, Activation activation, const DropoutRule& rule,
                          const LayoutPtr& layout);

}  // namespace trainer::nn
