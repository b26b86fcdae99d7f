// VeRA: vectors that scale two frozen random projections, which all layers share.
#include <algorithm>
#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/adapters/config_json.h"
#include "engine/adapters/layers.h"
#include "engine/adapters/merge.h"
#include "engine/adapters/target.h"
#include "engine/base/errors.h"
#include "models/nn/linear.h"

namespace trainer::adapters {
namespace {

/// base [T, out] + lambda_b * (lambda_d * dropout(x) A^T) B^T, with A [r, in] and B [out, r] frozen. Saves the [T, r]
/// product and the mask's bits; x isn't needed.
struct AddScaledProjections : torch::autograd::Function<AddScaledProjections> {
  using AutogradContext = torch::autograd::AutogradContext;
  using variable_list = torch::autograd::variable_list;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x_in, const at::Tensor& a,
                            const at::Tensor& b, const at::Tensor& lambda_d, const at::Tensor& lambda_b,
                            const nn::DropoutRule& rule, const nn::LayoutPtr& rows) {
    const at::Tensor x = x_in.contiguous();
    const at::Tensor mask = rule.active() ? nn::dropout_mask(rule, *rows, x) : at::Tensor();
    const at::Tensor seen = mask.defined() ? nn::apply_mask(x, mask, rule.scale) : x;
    const at::Tensor hidden = at::mm(seen, a.to(x.scalar_type()).t());  // [T, r]
    ctx->save_for_backward({hidden, a, b, lambda_d, lambda_b, mask});
    ctx->saved_data["kept"] = static_cast<double>(rule.scale);
    return base + at::mm(hidden * lambda_d, b.to(x.scalar_type()).t()) * lambda_b;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &hidden = saved[0], &lambda_d = saved[3], &lambda_b = saved[4], &mask = saved[5];
    const at::Tensor a = saved[1].to(hidden.scalar_type()), b = saved[2].to(hidden.scalar_type());
    const at::Tensor grad = grads[0].contiguous();
    const at::Tensor dscaled = at::mm(grad * lambda_b, b);  // [T, r]
    at::Tensor dx, dd, db;
    if (ctx->needs_input_grad(1)) {
      dx = at::mm(dscaled * lambda_d, a);
      if (mask.defined()) dx = nn::apply_mask(dx, mask, static_cast<float>(ctx->saved_data["kept"].toDouble()));
    }
    if (ctx->needs_input_grad(4)) dd = (dscaled * hidden).sum(0);
    if (ctx->needs_input_grad(5)) db = (at::mm(grad.t(), hidden * lambda_d) * b).sum(1);
    const at::Tensor none;
    return {grads[0], dx, none, none, dd, db, none, none};
  }
};

/// A linear layer plus lambda_b * B (lambda_d * A x): A [r, most inputs] and B [most outputs, r] are shared by all
/// layers, each of which uses its first columns of A and rows of B. lambda_d [r] and lambda_b [out] are trained.
/// Source: Kopiczko et al. 2024.
class VeraLinear : public nn::Linear {
 public:
  VeraLinear(const nn::Linear& base, const nn::ParameterPtr& a, const nn::ParameterPtr& b,
             const config::LoraConfig& options)
      : Linear(base), dropout_(options.vera_dropout), a_(a), b_(b) {
    share_parameter("vera_A", a);
    share_parameter("vera_B", b);
    const bool zero = options.init_weights;
    lambda_d_ = add_parameter("vera_lambda_d", {a->shape[0]},
                              zero ? nn::Init{nn::Init::kConstant, options.d_initial} : nn::Init{nn::Init::kNormal, 1});
    lambda_b_ = add_parameter("vera_lambda_b", {out()}, {nn::Init::kConstant, zero ? 0.0 : 1.0}, {.out = 0});
  }

  /// The change of the matrix [out, in].
  at::Tensor change(const ReadWeight& read) const {
    const at::Tensor a = read(*a_).narrow(1, 0, in()), b = read(*b_).narrow(0, 0, out());
    return at::mm(b * read(*lambda_d_), a).mul_(read(*lambda_b_).unsqueeze(1));
  }

 protected:
  at::Tensor project(const nn::Rows& x, const nn::Pass& pass) const override {
    return AddScaledProjections::apply(Linear::project(x, pass), x.x.to(pass.compute),
                                       a_->value.narrow(1, first_in(), in()), rows_of_b(),
                                       lambda_d_->value.to(pass.compute), lambda_b_->value.to(pass.compute),
                                       pass.dropout(path() + ".vera_dropout", dropout_, first_in()), x.layout);
  }

 private:
  /// The rows of B for the outputs that this rank has.
  at::Tensor rows_of_b() const {
    const nn::Part& part = weight()->part;
    if (part.whole() || part.dim != (stored() == Stored::kOutIn ? 0 : 1)) return b_->value.narrow(0, 0, out());
    std::vector<at::Tensor> rows;
    for (const nn::Range& range : part.ranges)
      rows.push_back(b_->value.narrow(0, range.begin, range.end - range.begin));
    return rows.size() == 1 ? rows[0] : at::cat(rows);
  }

  double dropout_;
  nn::ParameterPtr a_, b_, lambda_d_, lambda_b_;
};

nn::ParameterPtr frozen_projection(int64_t rows, int64_t columns) {
  auto parameter = std::make_shared<nn::Parameter>();
  parameter->shape = {rows, columns};
  parameter->trainable = false;
  return parameter;
}

/// A, or B, as PEFT draws them one after the other from torch's CPU generator: Kaiming-uniform.
at::Tensor draw_projection(const nn::Parameter& a, const nn::Parameter& b, int64_t key, bool wants_b) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(key));
  at::Tensor drawn;
  for (const nn::Parameter* parameter : {&a, &b}) {
    const double bound = std::sqrt(3.0) * (std::sqrt(2.0) / std::sqrt(static_cast<double>(parameter->shape[1])));
    drawn = at::empty(parameter->shape, at::kFloat).uniform_(-bound, bound, generator);
    if (parameter == &a && !wants_b) break;
  }
  return drawn;
}

const nn::Linear& linear_target(const nn::Module& module) {
  const auto* linear = dynamic_cast<const nn::Linear*>(&module);
  if (linear == nullptr)
    throw ConfigError("lora.target_modules: {} is an embedding; VeRA supports linear layers only", module.path());
  return *linear;
}

Injected inject_vera(models::Model& model, config::LoraConfig& options, const Encode&) {
  if (options.target_modules.empty()) options.target_modules.names = model.default_lora_targets();
  int64_t most_in = 0, most_out = 0;
  for (const nn::Module* module : target_modules(model, options)) {
    most_in = std::max(most_in, linear_target(*module).in());
    most_out = std::max(most_out, linear_target(*module).out());
  }
  const nn::ParameterPtr a = frozen_projection(options.r, most_in), b = frozen_projection(most_out, options.r);
  Injected injected;
  injected.layers = replace_targets(model, options, [&](nn::Module& base) {
    return std::make_shared<VeraLinear>(linear_target(base), a, b, options);
  });
  const int64_t key = options.projection_prng_key;
  injected.starts[a->name] = [a, b, key](const ReadWeight&) { return draw_projection(*a, *b, key, false); };
  injected.starts[b->name] = [a, b, key](const ReadWeight&) { return draw_projection(*a, *b, key, true); };
  return injected;
}

DerivedWeights merge_vera(const nn::Module& module) {
  const auto* layer = dynamic_cast<const VeraLinear*>(&module);
  if (layer == nullptr) return {};
  return merged_matrix(
      *layer, [layer](const at::Tensor& matrix, const ReadWeight& read) { return matrix + layer->change(read); });
}

nlohmann::json describe_vera(const config::LoraConfig& o, models::Model& model, const std::string&) {
  return {{"r", o.r},
          {"target_modules", names_or_pattern(o.target_modules)},
          {"projection_prng_key", o.projection_prng_key},
          {"save_projection", o.save_projection},
          {"vera_dropout", o.vera_dropout},
          {"d_initial", o.d_initial},
          {"fan_in_fan_out", has_conv1d(model)},
          {"bias", "none"},
          {"init_weights", o.init_weights},
          {"layers_to_transform", or_null(o.layers_to_transform)},
          {"layers_pattern", or_null(o.layers_pattern)}};
}

bool is_projection(const std::string& parameter) {
  return parameter == "vera_A" || parameter == "vera_B";
}

/// PEFT saves the projections under the model's root, not under a layer.
std::string vera_file_name(const nn::Module&, const std::string& parameter) {
  return is_projection(parameter) ? "base_model." + parameter : "";
}

void save_projections(nn::Module& module, const config::LoraConfig& options, AdapterFile& file) {
  if (!options.save_projection) return;
  for (const auto& [name, parameter] : module.parameters())
    if (is_projection(name) && file.done.count(parameter->name) == 0) file.add(*parameter);
}

}  // namespace

const KindLayers& vera_layers() {
  static const KindLayers layers{.inject = inject_vera,
                                 .describe = describe_vera,
                                 .parts = {".vera_"},
                                 .file_name = vera_file_name,
                                 .save = save_projections,
                                 .merge = merge_vera};
  return layers;
}

}  // namespace trainer::adapters
