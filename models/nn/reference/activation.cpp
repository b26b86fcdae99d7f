#include "models/nn/reference/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include "engine/base/errors.h"
#include "models/nn/reference/draws.h"
#include "models/nn/reference/recompute.h"

namespace trainer::nn::reference {
namespace {

at::Tensor activated(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return at::clamp_min(x, 0);  // relu has no meta implementation
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluNew:
      return at::gelu(x, "tanh");
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kQuickGelu:
      return x * at::sigmoid(1.702 * x);
    case Activation::kTanh:
      return at::tanh(x);
  }
  throw InternalError("invalid activation {}", static_cast<int>(activation));
}

}  // namespace

at::Tensor activate(const at::Tensor& gate, const at::Tensor& up, Activation activation, const at::Tensor& kept,
                    double scale) {
  std::vector<at::Tensor> inputs{gate};
  if (up.defined()) inputs.push_back(up);
  if (kept.defined()) inputs.push_back(kept);
  return recompute(inputs, [=, gated = up.defined(), drops = kept.defined()](const std::vector<at::Tensor>& in) {
    at::Tensor out = activated(in[0].to(at::kFloat), activation);
    if (gated) out = out * in[1];
    if (drops) out = masked(out, in.back(), scale);
    return out.to(in[0].scalar_type());
  });
}

}  // namespace trainer::nn::reference
