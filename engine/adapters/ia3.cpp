// (IA)^3: vectors that scale the outputs or inputs of layers.
#include <algorithm>

#include <ATen/TensorOperators.h>

#include "engine/adapters/config_json.h"
#include "engine/adapters/ia3_linear.h"
#include "engine/adapters/layers.h"
#include "engine/adapters/merge.h"
#include "engine/adapters/model_facts.h"
#include "engine/adapters/pattern.h"
#include "engine/adapters/target.h"
#include "engine/base/errors.h"

namespace trainer::adapters {
namespace {

void complete(const models::Model& model, config::LoraConfig& options) {
  if (options.target_modules.empty()) options.target_modules.names = default_ia3_layers(model).targets;
  if (options.feedforward_modules.empty()) options.feedforward_modules.names = default_ia3_layers(model).feedforward;
}

/// By PEFT's rule, which differs from that of target_modules: any suffix of the path matches.
bool is_feedforward(const std::string& path, const config::NamesOrPattern& wanted) {
  if (!wanted.pattern.empty()) return matches_whole(path, wanted.pattern, "feedforward_modules");
  return std::any_of(wanted.names.begin(), wanted.names.end(), [&](const auto& name) { return path.ends_with(name); });
}

Injected inject_ia3(models::Model& model, config::LoraConfig& options, const Encode&) {
  complete(model, options);
  const nn::Init init = options.init_ia3_weights ? nn::Init{nn::Init::kConstant, 1} : nn::Init{nn::Init::kNormal, 1};
  const int64_t layers = replace_targets(model, options, [&](nn::Module& base) {
    const auto* linear = dynamic_cast<const nn::Linear*>(&base);
    if (linear == nullptr)
      throw ConfigError("lora.target_modules: {} is an embedding, which IA3 can't scale", base.path());
    const bool input = is_feedforward(base.path(), options.feedforward_modules);
    return std::make_shared<Ia3Linear>(*linear, input ? Ia3Side::kInput : Ia3Side::kOutput, init);
  });
  return {layers, {}};
}

DerivedWeights merge_ia3(const nn::Module& module) {
  const auto* layer = dynamic_cast<const Ia3Linear*>(&module);
  if (layer == nullptr) return {};
  DerivedWeights merged = merged_matrix(*layer, [layer](const at::Tensor& matrix, const ReadWeight& read) {
    return matrix * read(*layer->scale());  // a row or a column
  });
  if (layer->side() == Ia3Side::kOutput && layer->bias() != nullptr)
    merged[name_in(*layer, "bias")] = [layer](const ReadWeight& read) {
      return read(*layer->bias()) * read(*layer->scale()).view(-1);
    };
  return merged;
}

nlohmann::json describe_ia3(const config::LoraConfig& o, models::Model& model, const std::string&) {
  const auto& feedforward = o.feedforward_modules;
  return {{"target_modules", names_or_pattern(o.target_modules)},
          {"exclude_modules", names_or_pattern(o.exclude_modules)},
          {"feedforward_modules", feedforward.empty() ? nlohmann::json::array() : names_or_pattern(feedforward)},
          {"fan_in_fan_out", has_conv1d(model)},
          {"init_ia3_weights", o.init_ia3_weights}};
}

}  // namespace

const KindLayers& ia3_layers() {
  static const KindLayers layers{
      .inject = inject_ia3, .describe = describe_ia3, .parts = {".ia3_l"}, .merge = merge_ia3};
  return layers;
}

}  // namespace trainer::adapters
