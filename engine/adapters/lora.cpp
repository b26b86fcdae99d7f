// LoRA, rsLoRA and DoRA.
#include "engine/adapters/lora.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "engine/adapters/config_json.h"
#include "engine/adapters/decomposition.h"
#include "engine/adapters/dora_linear.h"
#include "engine/adapters/layers.h"
#include "engine/adapters/lora_embedding.h"
#include "engine/adapters/merge.h"
#include "engine/adapters/merge_lora.h"
#include "engine/adapters/pattern.h"
#include "engine/adapters/target.h"
#include "engine/base/errors.h"
#include "engine/config/names.h"

namespace trainer::adapters {
namespace {

/// The highest rank that a change to the layer's weight can have.
int64_t highest_rank(const nn::Module& layer) {
  if (const auto* linear = dynamic_cast<const nn::Linear*>(&layer)) return std::min(linear->in(), linear->out());
  const auto& size = static_cast<const nn::Embedding&>(layer).weight()->shape;
  return std::min(size[0], size[1]);
}

/// A rank beyond what any target layer can use is a mistake: it costs more than full training. If it exceeds only some
/// of them (a router of 8 experts under all-linear), it is accepted, because PEFT's users rely on it.
void check_rank(const std::vector<nn::Module*>& layers, const config::LoraConfig& options) {
  if (!options.path.empty()) return;                // an existing adapter was trained with it
  if (options.r <= config::LoraConfig{}.r) return;  // PEFT's default: a trial on a tiny model
  const nn::Module* widest = nullptr;
  for (const nn::Module* layer : layers) {
    if (lora_shape(options, layer->path()).r <= highest_rank(*layer)) return;
    if (!widest || highest_rank(*layer) > highest_rank(*widest)) widest = layer;
  }
  if (widest)
    throw ConfigError(
        "lora.r is {}, but no target layer has that high a rank: the highest, of {}, is {}\n  set lora.r to at most {}",
        lora_shape(options, widest->path()).r, widest->path(), highest_rank(*widest), highest_rank(*widest));
}

/// Sets the initialization of A and B for a linear layer.
void start_linear(LoraShape& shape, const config::LoraConfig& options, const nn::Linear& base) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(base.in()));  // Kaiming-uniform with a = sqrt(5)
  const auto r = static_cast<double>(shape.r);
  const std::string& init = options.init_lora_weights;
  shape.a = {nn::Init::kUniform, bound};
  shape.b = {nn::Init::kConstant, 0};
  if (init == "gaussian") shape.a = {nn::Init::kNormal, 1.0 / r};
  if (init == "false") shape.b = {nn::Init::kUniform, 1.0 / std::sqrt(r)};
  shape.subtracts_start = is_decomposed(init);
  if (shape.subtracts_start && shape.r > std::min(base.in(), base.out()))
    throw ConfigError("lora.r is {}, but {} is [{}, {}]: init_lora_weights {} needs a rank of at most {}", shape.r,
                      base.path(), base.out(), base.in(), init, std::min(base.in(), base.out()));
}

/// For an embedding, where every init is the same except "false", which makes A and B random.
void start_embedding(LoraShape& shape, const config::LoraConfig& options) {
  shape.a = options.init_lora_weights == "false" ? nn::Init{nn::Init::kNormal, 1} : nn::Init{nn::Init::kConstant, 0};
  shape.b = {nn::Init::kNormal, 1};
}

std::shared_ptr<nn::Module> adapted(nn::Module& module, const config::LoraConfig& options) {
  LoraShape shape = lora_shape(options, module.path());
  if (auto* linear = dynamic_cast<nn::Linear*>(&module)) {
    start_linear(shape, options, *linear);
    if (options.use_dora) return std::make_shared<DoraLinear>(*linear, shape);
    return std::make_shared<LoraLinear>(*linear, shape);
  }
  if (options.use_dora)
    throw ConfigError("lora.use_dora: {} is an embedding; DoRA is supported for linear layers only", module.path());
  start_embedding(shape, options);
  return std::make_shared<LoraEmbedding>(static_cast<nn::Embedding&>(module), shape);
}

/// A, B and the start that is subtracted: all four from one decomposition, computed once.
void start_decomposed(const std::shared_ptr<LoraLinear>& layer, const std::string& init, DerivedWeights& starts) {
  auto made = std::make_shared<LowRank>();
  const auto make = [layer, init, made](const ReadWeight& read) -> const LowRank& {
    if (!made->a.defined())
      *made = decompose(matrix_of(*layer, read), init, layer->shape().r, layer->shape().scale, layer->path());
    return *made;
  };
  for (const auto& parameter : {layer->a(), layer->start_a()})
    starts[parameter->name] = [make](const ReadWeight& read) { return make(read).a; };
  for (const auto& parameter : {layer->b(), layer->start_b()})
    starts[parameter->name] = [make](const ReadWeight& read) { return make(read).b; };
}

/// The magnitude starts as the norms of the rows.
void start_magnitude(const std::shared_ptr<DoraLinear>& layer, DerivedWeights& starts) {
  starts[layer->magnitude()->name] = [layer](const ReadWeight& read) {
    const at::Tensor w = matrix_of(*layer, read);
    if (layer->shape().subtracts_start) return row_lengths(w, read(*layer->a()), read(*layer->b()), 0);
    return row_lengths(w, read(*layer->a()), read(*layer->b()), layer->shape().scale);
  };
}

/// By PEFT's rule: every parameter named "bias", or only those of layers with adapters.
void unfreeze_biases(models::Model& model, const config::LoraConfig& options) {
  const bool all = options.bias == config::LoraBias::kAll;
  if (options.bias == config::LoraBias::kNone) return;
  model.visit([&](nn::Module& module) {
    if (!all && dynamic_cast<LoraLinear*>(&module) == nullptr) return;
    for (const auto& [name, parameter] : module.parameters())
      if (name == "bias") parameter->trainable = true;
  });
}

Injected inject_lora(models::Model& model, config::LoraConfig& options, const Encode&) {
  if (options.target_modules.empty()) options.target_modules.names = model.default_lora_targets();
  check_rank(target_modules(model, options), options);
  Injected injected;
  std::vector<std::shared_ptr<LoraLinear>> layers;
  injected.layers = replace_targets(model, options, [&](nn::Module& base) {
    auto made = adapted(base, options);
    if (auto layer = std::dynamic_pointer_cast<LoraLinear>(made)) layers.push_back(std::move(layer));
    return made;
  });
  unfreeze_biases(model, options);
  for (const auto& layer : layers) {
    if (layer->shape().subtracts_start) start_decomposed(layer, options.init_lora_weights, injected.starts);
    if (auto dora = std::dynamic_pointer_cast<DoraLinear>(layer)) start_magnitude(dora, injected.starts);
  }
  return injected;
}

/// The options of the adapter that a run with `options` saves: decomposed starts (Note [Decomposed start]) double the
/// rank.
config::LoraConfig as_saved(config::LoraConfig options) {
  if (!is_decomposed(options.init_lora_weights)) return options;
  const double alpha = options.use_rslora ? std::numbers::sqrt2 : 2;  // keeps the scale
  options.r *= 2;
  options.lora_alpha *= alpha;
  for (auto& [pattern, value] : options.rank_pattern) value *= 2;
  for (auto& [pattern, value] : options.alpha_pattern) value *= alpha;
  options.init_lora_weights = "true";
  return options;
}

nlohmann::json init_json(const std::string& init) {
  if (init == "true" || init == "false") return init == "true";
  return init;
}

nlohmann::json describe_lora(const config::LoraConfig& given, models::Model& model, const std::string&) {
  const config::LoraConfig o = as_saved(given);
  return {{"r", o.r},
          {"lora_alpha", number(o.lora_alpha)},
          {"lora_dropout", o.lora_dropout},
          {"target_modules", names_or_pattern(o.target_modules)},
          {"exclude_modules", names_or_pattern(o.exclude_modules)},
          {"bias", config::name_of(o.bias)},
          {"use_rslora", o.use_rslora},
          {"use_dora", o.use_dora},
          {"fan_in_fan_out", has_conv1d(model)},
          {"init_lora_weights", init_json(o.init_lora_weights)},
          {"layers_to_transform", or_null(o.layers_to_transform)},
          {"layers_pattern", or_null(o.layers_pattern)},
          {"rank_pattern", o.rank_pattern},
          {"alpha_pattern", numbers(o.alpha_pattern)}};
}

/// [A; A0] and [B, -B0] of a decomposed start.
void save_doubled(nn::Module& module, const config::LoraConfig&, AdapterFile& file) {
  const auto* layer = dynamic_cast<const LoraLinear*>(&module);
  if (layer == nullptr || !layer->shape().subtracts_start) return;
  const int64_t r = 2 * layer->shape().r, in = layer->a()->whole_shape()[1], out = layer->b()->whole_shape()[0];
  const auto add = [&](const nn::Parameter& trained, const nn::Parameter& start, std::vector<int64_t> shape,
                       int64_t dim, double sign) {
    file.done.insert(trained.name);
    file.tensors.push_back({file.names.at(trained.name).front(),
                            std::move(shape),
                            {trained.name, start.name},
                            [dim, sign](const auto& parts) {
                              const at::Tensor own = parts[1].to(parts[0].scalar_type());
                              return at::cat({parts[0], sign < 0 ? -own : own}, dim);
                            }});
  };
  add(*layer->a(), *layer->start_a(), {r, in}, 0, 1);
  add(*layer->b(), *layer->start_b(), {out, r}, 1, -1);
}

}  // namespace

LoraShape lora_shape(const config::LoraConfig& options, const std::string& path) {
  LoraShape shape;
  shape.r = by_pattern(options.rank_pattern, path, options.r, "rank_pattern");
  const double alpha = by_pattern(options.alpha_pattern, path, options.lora_alpha, "alpha_pattern");
  const auto r = static_cast<double>(shape.r);
  shape.scale = alpha / (options.use_rslora ? std::sqrt(r) : r);
  shape.dropout = options.lora_dropout;
  return shape;
}

const KindLayers& lora_layers() {
  static const KindLayers layers{
      .inject = inject_lora, .describe = describe_lora, .parts = {".lora_"}, .save = save_doubled, .merge = merge_lora};
  return layers;
}

}  // namespace trainer::adapters
