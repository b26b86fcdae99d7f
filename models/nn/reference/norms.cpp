#include "models/nn/reference/norms.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>

#include "models/nn/reference/recompute.h"

namespace trainer::nn::reference {
namespace {

/// `x` rounded to `dtype`, in fp32; the gradient passes through unrounded.
at::Tensor rounded(const at::Tensor& x, at::ScalarType dtype) {
  return x + (x.to(dtype).to(at::kFloat) - x).detach();  // exact: the two are close enough for exact subtraction
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype,
                    RmsRounding rounding) {
  return recompute({x, weight}, [=](const std::vector<at::Tensor>& in) {
    const at::Tensor wide = in[0].to(at::kFloat);
    const at::Tensor plain = wide * at::rsqrt((wide * wide).mean(-1, /*keepdim=*/true) + eps);
    return ((rounding == RmsRounding::kOnce ? plain : rounded(plain, out_dtype)) * in[1]).to(out_dtype);
  });
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      at::ScalarType out_dtype) {
  std::vector<at::Tensor> inputs{x, weight};
  if (bias.defined()) inputs.push_back(bias);
  return recompute(inputs, [=](const std::vector<at::Tensor>& in) {
    const at::Tensor centered = in[0] - in[0].mean(-1, /*keepdim=*/true);
    const at::Tensor scaled = centered * at::rsqrt((centered * centered).mean(-1, /*keepdim=*/true) + eps) * in[1];
    return (in.size() > 2 ? scaled + in[2] : scaled).to(out_dtype);
  });
}

}  // namespace trainer::nn::reference
