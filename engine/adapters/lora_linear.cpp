#include "engine/adapters/lora_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/kept_elements.h"
#include "models/nn/saved.h"

namespace trainer::adapters {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// scale * a b. On a device in one operator; on the CPU, whose products add up blocks, `scale` would round each of
/// them.
at::Tensor scaled_product(const at::Tensor& a, const at::Tensor& b, double scale) {
  if (a.is_cpu()) return at::mm(a, b).mul_(scale);
  return at::empty({a.size(0), b.size(1)}, a.options()).addmm_(a, b, /*beta=*/0, scale);
}

struct AddLowRank : torch::autograd::Function<AddLowRank> {
  struct State {
    nn::DropoutRule rule;
    double scale;
    nn::SharedGradientPtr gradient;  // of x; null: not shared
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x_in, const at::Tensor& a,
                            const at::Tensor& b, const State& state, const nn::LayoutPtr& rows, BaseUse use) {
    const at::Tensor x = x_in.contiguous();
    const nn::KeptElements kept = nn::kept_elements(state.rule, *rows, x);
    const at::Tensor hidden = at::mm(nn::drop_others(kept, x), a.t());  // [T, r]
    ctx->save_for_backward({x, hidden, a, b, kept.first, kept.second});
    nn::keep(ctx, state);
    if (use == BaseUse::kKeep) return at::addmm(base, hidden, b.t(), 1, state.scale);
    ctx->mark_dirty({base});
    return at::Tensor(base).addmm_(hidden, b.t(), 1, state.scale);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &hidden = saved[1], &a = saved[2], &b = saved[3];
    const State& state = nn::kept<State>(ctx);
    const nn::KeptElements kept{state.rule, saved[4], saved[5]};
    const at::Tensor grad = grads[0].contiguous();
    const at::Tensor dhidden = scaled_product(grad, b, state.scale);  // [T, r]
    at::Tensor dx, da, db;
    if (state.gradient && !state.rule.active())
      state.gradient->add_product(dhidden, a);
    else if (ctx->needs_input_grad(1))
      dx = nn::drop_others(kept, at::mm(dhidden, a));
    if (ctx->needs_input_grad(2)) da = at::mm(dhidden.t(), nn::drop_others(kept, x));
    if (ctx->needs_input_grad(3)) db = scaled_product(grad.t(), hidden, state.scale);
    const at::Tensor none;
    return {grads[0], dx, da, db, none, none, none};
  }
};

}  // namespace

at::Tensor add_low_rank(const at::Tensor& base, const nn::Rows& x, const at::Tensor& a, const at::Tensor& b,
                        double scale, const nn::DropoutRule& rule, BaseUse use) {
  return AddLowRank::apply(base, x.x, a, b, AddLowRank::State{rule, scale, x.gradient}, x.layout, use);
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
  return add_low_rank(y, x, start_a_->value.to(pass.compute), start_b_->value.to(pass.compute), -shape_.scale, {},
                      BaseUse::kOverwrite);
}

at::Tensor LoraLinear::add_branch(const at::Tensor& base, const nn::Rows& x, const nn::DropoutRule& rule,
                                  const nn::Pass& pass, BaseUse use) const {
  return add_low_rank(base, x, a_->value.to(pass.compute), b_->value.to(pass.compute), shape_.scale, rule, use);
}

nn::DropoutRule LoraLinear::dropout(const nn::Pass& pass) const {
  return pass.dropout(path() + ".lora_dropout", shape_.dropout, first_in());
}

at::Tensor LoraLinear::project(const nn::Rows& x_in, const nn::Pass& pass) const {
  const nn::Rows x = x_in.to(pass.compute);
  return add_branch(base(x, pass), x, dropout(pass), pass, BaseUse::kOverwrite);
}

}  // namespace trainer::adapters
