// LoHa: the elementwise product of two low-rank matrices.
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/adapters/config_json.h"
#include "engine/adapters/layers.h"
#include "engine/adapters/merge.h"
#include "engine/adapters/pattern.h"
#include "engine/adapters/target.h"
#include "engine/base/errors.h"
#include "models/nn/linear.h"

namespace trainer::adapters {
namespace {

/// base [T, out] + scale * x ((W1a W1b) * (W2a W2b))^T, with x [T, in]. Saves x and the factors, no [out, in] matrix.
struct AddHadamard : torch::autograd::Function<AddHadamard> {
  using AutogradContext = torch::autograd::AutogradContext;
  using variable_list = torch::autograd::variable_list;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& w1_a,
                            const at::Tensor& w1_b, const at::Tensor& w2_a, const at::Tensor& w2_b, double scale) {
    ctx->save_for_backward({x, w1_a, w1_b, w2_a, w2_b});
    ctx->saved_data["scale"] = scale;
    const at::Tensor delta = at::mm(w1_a, w1_b).mul_(at::mm(w2_a, w2_b));  // [out, in]
    return at::addmm(base, x, delta.t(), 1, scale);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &w1_a = saved[1], &w1_b = saved[2], &w2_a = saved[3], &w2_b = saved[4];
    const double scale = ctx->saved_data["scale"].toDouble();
    const at::Tensor grad = grads[0].contiguous(), w1 = at::mm(w1_a, w1_b), w2 = at::mm(w2_a, w2_b);
    at::Tensor dx;
    if (ctx->needs_input_grad(1)) dx = at::mm(grad, w1 * w2).mul_(scale);
    const at::Tensor ddelta = at::mm(grad.t(), x).mul_(scale);  // [out, in]
    const at::Tensor dw1 = ddelta * w2, dw2 = ddelta * w1;
    return {grads[0],    dx, at::mm(dw1, w1_b.t()), at::mm(w1_a.t(), dw1), at::mm(dw2, w2_b.t()), at::mm(w2_a.t(), dw2),
            at::Tensor()};
  }
};

struct LohaShape {
  int64_t r = 8;
  double scale = 1;  // alpha / r
  bool zero = true;  // starts without an effect
};

/// A linear layer whose change is scale * (W1a W1b) * (W2a W2b): each factor has rank r, their elementwise product up
/// to r^2. W1a and W2a [out, r], W1b and W2b [r, in]. Source: Hyeon-Woo et al. 2022, FedPara.
class LohaLinear : public nn::Linear {
 public:
  LohaLinear(const nn::Linear& base, const LohaShape& shape) : Linear(base), scale_(shape.scale) {
    const auto bound = [](int64_t fan_in) {  // Kaiming-uniform with a = sqrt(5)
      return nn::Init{nn::Init::kUniform, 1.0 / std::sqrt(static_cast<double>(fan_in))};
    };
    w1_a_ = add("hada_w1_a", {out(), shape.r}, bound(shape.r), {.out = 0});
    w1_b_ = add("hada_w1_b", {shape.r, in()}, bound(in()), {.in = 1});
    w2_a_ = add("hada_w2_a", {out(), shape.r}, bound(shape.r), {.out = 0});
    w2_b_ = add("hada_w2_b", {shape.r, in()}, shape.zero ? nn::Init{nn::Init::kConstant, 0} : bound(in()), {.in = 1});
  }

  /// The change of the matrix [out, in].
  at::Tensor change(const ReadWeight& read) const {
    return at::mm(read(*w1_a_), read(*w1_b_)).mul_(at::mm(read(*w2_a_), read(*w2_b_))).mul_(scale_);
  }

 protected:
  at::Tensor project(const nn::Rows& x, const nn::Pass& pass) const override {
    const auto factor = [&](const nn::ParameterPtr& p) { return p->value.to(pass.compute); };
    return AddHadamard::apply(Linear::project(x, pass), x.x.to(pass.compute), factor(w1_a_), factor(w1_b_),
                              factor(w2_a_), factor(w2_b_), scale_);
  }

 private:
  nn::ParameterPtr add(const char* name, nn::Shape shape, nn::Init init, nn::Axes axes) {
    const nn::ParameterPtr added = add_parameter(name, std::move(shape), init, axes);
    added->linear = true;
    added->fp32_under_fp16 = weight()->fp32_under_fp16;
    return added;
  }

  double scale_;
  nn::ParameterPtr w1_a_, w1_b_, w2_a_, w2_b_;
};

std::shared_ptr<nn::Module> with_loha(const nn::Module& base, const config::LoraConfig& options) {
  const auto* linear = dynamic_cast<const nn::Linear*>(&base);
  if (linear == nullptr || linear->stored() == nn::Linear::Stored::kInOut)
    throw ConfigError("lora.target_modules: {} is {}; PEFT's LoHa supports linear layers only", base.path(),
                      linear == nullptr ? "an embedding" : "a Conv1D, as in GPT-2");
  LohaShape shape;
  shape.r = by_pattern(options.rank_pattern, base.path(), options.r, "rank_pattern");
  const double alpha = by_pattern(options.alpha_pattern, base.path(), options.alpha, "alpha_pattern");
  shape.scale = alpha / static_cast<double>(shape.r);
  shape.zero = options.init_weights;
  return std::make_shared<LohaLinear>(*linear, shape);
}

Injected inject_loha(models::Model& model, config::LoraConfig& options, const Encode&) {
  if (options.target_modules.empty()) options.target_modules.names = model.default_lora_targets();
  return {replace_targets(model, options, [&](nn::Module& base) { return with_loha(base, options); }), {}};
}

DerivedWeights merge_loha(const nn::Module& module) {
  const auto* layer = dynamic_cast<const LohaLinear*>(&module);
  if (layer == nullptr) return {};
  return merged_matrix(
      *layer, [layer](const at::Tensor& matrix, const ReadWeight& read) { return matrix + layer->change(read); });
}

nlohmann::json describe_loha(const config::LoraConfig& o, models::Model&, const std::string&) {
  return {{"r", o.r},
          {"alpha", number(o.alpha)},
          {"rank_dropout", o.rank_dropout},
          {"module_dropout", o.module_dropout},
          {"use_effective_conv2d", o.use_effective_conv2d},
          {"target_modules", names_or_pattern(o.target_modules)},
          {"exclude_modules", names_or_pattern(o.exclude_modules)},
          {"init_weights", o.init_weights},
          {"layers_to_transform", or_null(o.layers_to_transform)},
          {"layers_pattern", or_null(o.layers_pattern)},
          {"rank_pattern", o.rank_pattern},
          {"alpha_pattern", numbers(o.alpha_pattern)}};
}

}  // namespace

const KindLayers& loha_layers() {
  static const KindLayers layers{
      .inject = inject_loha, .describe = describe_loha, .parts = {".hada_"}, .merge = merge_loha};
  return layers;
}

}  // namespace trainer::adapters
