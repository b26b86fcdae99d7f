#include "models/nn/shared_gradient.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/reference/reference.h"
#include "models/nn/rows.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

/// x itself. Its backward runs after those of all readers.
struct ReadBySeveral : torch::autograd::Function<ReadBySeveral> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const SharedGradientPtr& gradient) {
    keep(ctx, gradient);
    ctx->set_materialize_grads(false);
    return x.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor sum = kept<SharedGradientPtr>(ctx)->take(), &others = grads[0], none;
    if (!sum.defined()) return {others, none};
    return {others.defined() ? sum.add_(others) : sum, none};
  }
};

}  // namespace

void SharedGradient::add_product(const at::Tensor& a, const at::Tensor& b) {
  if (sum_.defined())
    sum_.addmm_(a, b);
  else
    sum_ = at::mm(a, b);
}

at::Tensor SharedGradient::take() {
  return std::exchange(sum_, {});
}

Rows share_gradient(const Rows& x) {
  if (!at::GradMode::is_enabled() || !x.x.requires_grad() || !runs_reference(x.x)) return x;
  const auto gradient = std::make_shared<SharedGradient>();
  return {ReadBySeveral::apply(x.x, gradient), x.layout, gradient};
}

}  // namespace trainer::nn
