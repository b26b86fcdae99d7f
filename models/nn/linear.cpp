#include "models/nn/linear.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/cpu_products.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/reference/reference.h"
#include "models/nn/saved.h"
#include "models/nn/stored_weight.h"
#include "models/nn/weight_gradient.h"

namespace trainer::nn {
namespace {

/// A weight's values, as it stores them, as [out, in] in `dtype`.
at::Tensor matrix_of(const at::Tensor& value, const Storage& storage, Linear::Stored stored, at::ScalarType dtype) {
  const at::Tensor decoded = storage.decode(value, dtype);
  return stored == Linear::Stored::kOutIn ? decoded : decoded.t();
}

/// x W^T + b for a frozen W that is packed, or whose dtype differs from x's, or that shares x's gradient. The decoded W
/// exists only briefly in forward and again in backward; autograd would hold it in between, and with it a decoded copy
/// of the whole model. b, which may be missing, is frozen too.
struct LinearOfKept : torch::autograd::Function<LinearOfKept> {
  struct Kept {
    Storage storage;
    Linear::Stored stored;
    SharedGradientPtr gradient;  // null: not shared
  };
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& value,
                            const std::optional<at::Tensor>& bias, const Kept& as) {
    ctx->save_for_backward({value});
    keep(ctx, as);
    if (bias) return at::addmm(*bias, x, matrix_of(value, as.storage, as.stored, x.scalar_type()).t());
    return StoredWeight(value, as.storage, x).multiply(x, as.stored == Linear::Stored::kOutIn);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const Kept& as = kept<Kept>(ctx);
    const at::Tensor value = ctx->get_saved_variables()[0], &grad = grads[0], none;
    if (!as.gradient) {
      const StoredWeight weight(value, as.storage, grad);
      return {weight.multiply(grad, as.stored != Linear::Stored::kOutIn), none, none, none};
    }
    as.gradient->add_product(grad, matrix_of(value, as.storage, as.stored, grad.scalar_type()));
    return {none, none, none, none};
  }
};

/// x W^T + b for a large W that learns: Note [Gradients in place].
struct LinearOfLearned : torch::autograd::Function<LinearOfLearned> {
  struct Kept {
    ParameterPtr weight;
    Linear::Stored stored;
    bool learns_bias;
  };
  /// `value`: the weight's, so that autograd knows it.
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& value,
                            const std::optional<at::Tensor>& bias, const Kept& as) {
    const at::Tensor matrix = matrix_of(value, as.weight->storage, as.stored, x.scalar_type());
    ctx->save_for_backward({x, matrix});
    keep(ctx, as);
    return at::linear(x, matrix, bias);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto& [weight, stored, learns_bias] = kept<Kept>(ctx);
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &grad = grads[0], none;
    const at::Tensor of_x = ctx->needs_input_grad(0) ? at::mm(grad, saved[1]) : none,
                     of_bias = learns_bias ? grad.sum(0) : none;
    const bool out_in = stored == Linear::Stored::kOutIn;
    const at::Tensor a = (out_in ? grad : x).t(), b = out_in ? x : grad;
    if (!takes_gradient_in_place(weight->value))
      return {of_x, at::mm(a, b).to(weight->value.scalar_type()), of_bias, none};
    add_to_gradient(*weight, a, b);
    return {of_x, no_rows(weight->value), of_bias, none};
  }
};

/// Rows of a table that learns: Note [Gradients in place].
struct LearnedRows : torch::autograd::Function<LearnedRows> {
  struct Kept {
    ParameterPtr weight;
    at::Tensor ids;
    int64_t frozen;
  };
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& table, const Kept& as) {
    keep(ctx, as);
    return at::embedding(table, as.ids);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto& [weight, ids, frozen] = kept<Kept>(ctx);
    const at::Tensor& table = weight->value;
    const at::Tensor none;
    if (!takes_gradient_in_place(table))
      return {at::embedding_dense_backward(grads[0].contiguous(), ids, table.size(0), frozen, false), none};
    refresh_gradient(*weight);
    at::Tensor& sum = table.mutable_grad();
    const at::Tensor kept_row = frozen < 0 ? none : sum.select(0, frozen).clone();
    sum.index_add_(0, ids, grads[0]);
    if (kept_row.defined()) sum.select(0, frozen).copy_(kept_row);
    return {no_rows(table), none};
  }
};

}  // namespace

Linear::Linear(int64_t in, int64_t out, bool bias, Init init, Stored stored)
    : Module(stored == Stored::kOutIn ? "Linear" : "Conv1D"), stored_(stored) {
  use_cpu_products();
  const ParameterPtr weight = stored == Stored::kOutIn ? add_parameter("weight", {out, in}, init, {.in = 1, .out = 0})
                                                       : add_parameter("weight", {in, out}, init, {.in = 0, .out = 1});
  weight->linear = true;
  if (bias) add_parameter("bias", {out}, {Init::kConstant, 0}, {.out = 0})->linear = true;
}

Linear::Linear(const ParameterPtr& tied) : Module("Linear") {
  share_parameter("weight", tied);
}

Linear::Linear(const Linear& base) : Module(base.class_name()), stored_(base.stored_) {
  for (const auto& [name, parameter] : base.parameters()) share_parameter(name, parameter);
}

Rows Linear::operator()(const Rows& x, const Pass& given) {
  const at::ScalarType compute = weight()->computed_in(given.compute);
  if (!wrapped() && compute == given.compute) return x.with(project(x, given));
  Pass pass = given;
  pass.compute = compute;
  // A wrapper may give the layer other rows, whose gradient isn't the shared one.
  return wrapped() ? Module::operator()({x.with(x.x)}, pass)[0] : x.with(project(x, pass));
}

at::Tensor Linear::project(const Rows& x, const Pass& pass) const {
  const Rows in = x.to(pass.compute);
  const ParameterPtr w = weight();
  const ParameterPtr b = adds_bias_ ? bias() : nullptr;
  const auto added = b ? std::optional<at::Tensor>(b->value.to(pass.compute)) : std::nullopt;
  const bool frozen = !w->value.requires_grad();
  if (!frozen && at::GradMode::is_enabled() && writes_gradient(w->value)) {
    const LinearOfLearned::Kept as{w, stored_, added && added->requires_grad()};
    return LinearOfLearned::apply(in.x, w->value, added, as);
  }
  const bool shares = in.gradient && frozen && !(added && added->requires_grad());
  if (!w->storage.packed && !shares && (w->value.scalar_type() == pass.compute || !frozen))
    return at::linear(in.x, matrix(pass.compute), added);
  const LinearOfKept::Kept as{w->storage, stored_, shares ? in.gradient : nullptr};
  const at::Tensor out = LinearOfKept::apply(in.x, w->value, shares ? added : std::nullopt, as);
  return added && !shares ? out + *added : out;
}

at::Tensor Linear::matrix(at::ScalarType dtype) const {
  const ParameterPtr w = weight();
  return matrix_of(w->value, w->storage, stored_, dtype);
}

int64_t Linear::first_of(int64_t dim) const {
  const ParameterPtr w = weight();
  return w->part.whole() || w->part.dim != dim ? 0 : w->part.ranges.front().begin;
}

ParameterPtr Linear::find(const char* name) const {
  for (const auto& [known, parameter] : parameters())
    if (known == name) return parameter;
  return nullptr;
}

Embedding::Embedding(int64_t count, int64_t width, Init init, double scale) : Module("Embedding"), scale_(scale) {
  add_parameter("weight", {count, width}, init, {.in = 0, .out = 1});
}

Embedding::Embedding(const ParameterPtr& tied) : Module("Embedding") {
  share_parameter("weight", tied);
}

Embedding::Embedding(const Embedding& base) : Embedding(base.weight()) {
  scale_ = base.scale_;
  frozen_ = base.frozen_;
}

Rows Embedding::operator()(const Rows& ids, const Pass& pass) {
  return wrapped() ? Module::operator()({ids}, pass)[0] : forward({ids}, pass)[0];
}

int64_t Embedding::frozen_row() const {
  const Part& part = weight()->part;
  const int64_t row = part.whole() || part.dim != 0 ? frozen_ : frozen_ - part.ranges.front().begin;
  return row < weight()->value.size(0) ? std::max<int64_t>(row, -1) : -1;
}

RowsList Embedding::forward(const RowsList& inputs, const Pass&) {
  const at::Tensor& table = weight()->value;
  const at::Tensor ids = device::sent(inputs[0].x, table.device());
  const bool learns = !on_device(table) && table.requires_grad() && at::GradMode::is_enabled();
  const int64_t frozen = frozen_row();
  const at::Tensor found =
      learns ? LearnedRows::apply(table, LearnedRows::Kept{weight(), ids, frozen}) : at::embedding(table, ids, frozen);
  const at::Tensor rows = found.to(at::kFloat);
  return {inputs[0].with(scale_ == 1 ? rows : rows * scale_)};
}

}  // namespace trainer::nn
