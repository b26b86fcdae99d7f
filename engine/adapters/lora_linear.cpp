#include "engine/adapters/lora_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace trainer::adapters {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// x itself if there is no mask.
at::Tensor dropped(const at::Tensor& x, const at::Tensor& mask, double scale) {
  return mask.defined() ? nn::apply_mask(x, mask, static_cast<float>(scale)) : x;
}

struct AddLowRank : torch::autograd::Function<AddLowRank> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x_in, const at::Tensor& a,
                            const at::Tensor& b, double scale, const nn::DropoutRule& rule, const nn::LayoutPtr& rows) {
    const at::Tensor x = x_in.contiguous();
    const at::Tensor mask = rule.active() ? nn::dropout_mask(rule, *rows, x) : at::Tensor();
    const at::Tensor hidden = at::mm(dropped(x, mask, rule.scale), a.t());  // [T, r]
    ctx->save_for_backward({x, hidden, a, b, mask});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["kept"] = static_cast<double>(rule.scale);
    return at::addmm(base, hidden, b.t(), 1, scale);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &hidden = saved[1], &a = saved[2], &b = saved[3], &mask = saved[4];
    const double scale = ctx->saved_data["scale"].toDouble(), kept = ctx->saved_data["kept"].toDouble();
    const at::Tensor grad = grads[0].contiguous();
    const at::Tensor dhidden = at::mm(grad, b).mul_(scale);  // [T, r]
    at::Tensor dx, da, db;
    if (ctx->needs_input_grad(1)) dx = dropped(at::mm(dhidden, a), mask, kept);
    if (ctx->needs_input_grad(2)) da = at::mm(dhidden.t(), dropped(x, mask, kept));
    if (ctx->needs_input_grad(3)) db = at::mm(grad.t(), hidden).mul_(scale);
    const at::Tensor none;
    return {grads[0], dx, da, db, none, none, none};
  }
};

}  // namespace

at::Tensor add_low_rank(const at::Tensor& base, const nn::Rows& x, const at::Tensor& a, const at::Tensor& b,
                        double scale, const nn::DropoutRule& rule) {
  return AddLowRank::apply(base, x.x, a, b, scale, rule, x.layout);
}

LoraLinear::LoraLinear(const nn::Linear& base, const LoraShape& shape) : Linear(base), shape_(shape) {
  a_ = add_parameter("lora_A.weight", {shape.r, in()}, shape.a, {.in = 1});
  b_ = add_parameter("lora_B.weight", {out(), shape.r}, shape.b, {.out = 0});
  a_->linear = b_->linear = true;
  a_->fp32_under_fp16 = b_->fp32_under_fp16 = weight()->fp32_under_fp16;
  if (!shape.subtracts_start) return;
  start_a_ = add_parameter("lora_start_A.weight", {shape.r, in()}, {}, {.in = 1});
  start_b_ = add_parameter("lora_start_B.weight", {out(), shape.r}, {}, {.out = 0});
  start_a_->linear = start_b_->linear = true;
  start_a_->fp32_under_fp16 = start_b_->fp32_under_fp16 = weight()->fp32_under_fp16;
  start_a_->trainable = start_b_->trainable = false;
}

at::Tensor LoraLinear::base(const nn::Rows& x, const nn::Pass& pass) const {
  const at::Tensor y = Linear::project(x, pass);
  if (start_a_ == nullptr) return y;
  return add_low_rank(y, x, start_a_->value.to(pass.compute), start_b_->value.to(pass.compute), -shape_.scale, {});
}

at::Tensor LoraLinear::add_branch(const at::Tensor& base, const nn::Rows& x, const nn::DropoutRule& rule,
                                  const nn::Pass& pass) const {
  return add_low_rank(base, x, a_->value.to(pass.compute), b_->value.to(pass.compute), shape_.scale, rule);
}

nn::DropoutRule LoraLinear::dropout(const nn::Pass& pass) const {
  return pass.dropout(path() + ".lora_dropout", shape_.dropout, first_in());
}

at::Tensor LoraLinear::project(const nn::Rows& x_in, const nn::Pass& pass) const {
  const nn::Rows x = x_in.with(x_in.x.to(pass.compute));
  return add_branch(base(x, pass), x, dropout(pass), pass);
}

}  // namespace trainer::adapters
