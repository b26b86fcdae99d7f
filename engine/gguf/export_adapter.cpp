#include "engine/gguf/export_adapter.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include "engine/adapters/dora_linear.h"
#include "engine/adapters/inject.h"
#include "engine/adapters/lora_embedding.h"
#include "engine/adapters/lora_linear.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/gguf/family.h"
#include "engine/gguf/general.h"
#include "engine/gguf/hyperparameters.h"

namespace trainer::gguf {
namespace fs = std::filesystem;
namespace {

/// A layer's low-rank change of its weight: scale * B A.
struct Change {
  std::string weight;  // Hugging Face's name of the weight that it changes
  nn::ParameterPtr a, b;
  double scale = 1;
  bool embedding = false;
};

[[noreturn]] void refuse(const config::LoraConfig& options, const std::string& why) {
  throw ConfigError(
      "{}: the adapter can't be a LoRA in GGUF: {}.\n  Merge it into its base model: trainer export {} FILE.gguf "
      "--format gguf --merge",
      options.path, why, options.path);
}

std::vector<Change> changes_of(models::Model& model, const config::LoraConfig& options) {
  if (options.peft_type != "LORA") refuse(options, "its kind is " + options.peft_type);
  std::vector<Change> changes;
  model.visit([&](const nn::Module& module) {
    if (dynamic_cast<const adapters::DoraLinear*>(&module) != nullptr) refuse(options, "use_dora scales whole weights");
    if (const auto* linear = dynamic_cast<const adapters::LoraLinear*>(&module)) {
      if (linear->start_a() != nullptr) refuse(options, "it changes its base model's weights (init_lora_weights)");
      changes.push_back({module.path() + ".weight", linear->a(), linear->b(), linear->shape().scale});
    } else if (const auto* table = dynamic_cast<const adapters::LoraEmbedding*>(&module)) {
      changes.push_back({module.path() + ".weight", table->a(), table->b(), table->change_scale(), true});
    }
  });
  for (const nn::ParameterPtr& p : model.all_parameters())
    if (p->trainable && !adapters::is_adapter(p->name)) refuse(options, "it replaces " + p->name);
  return changes;
}

}  // namespace

Exported export_adapter(models::Model& model, const parallel::WeightSource& source, const config::LoraConfig& options,
                        const std::string& name, const fs::path& file, TensorType type) {
  const at::NoGradGuard no_grad;
  const Family& family = family_of(model);
  const auto config = bounded_json(model.config_json());
  const double alpha = options.lora_alpha > 0 ? options.lora_alpha : 1;
  const std::vector<Change> changes = changes_of(model, options);
  if (config.value("tie_word_embeddings", false))
    for (const Change& change : changes)
      if (change.embedding || change.weight == "lm_head.weight")
        refuse(options, "llama.cpp can't tell " + change.weight + " from the weight that it is tied to");
  std::vector<TensorSpec> specs;
  for (const Change& change : changes) {
    const std::string weight = tensor_name(family, change.weight);
    std::vector<int64_t> a = change.a->shape;
    if (change.embedding) std::swap(a[0], a[1]);
    specs.push_back({weight + ".lora_a", type_of(weight, a, type), a});
    specs.push_back({weight + ".lora_b", type_of(weight, change.b->shape, type), change.b->shape});
  }
  Metadata metadata = general(family.architecture, "adapter", name);
  metadata.emplace_back("adapter.type", std::string("lora"));
  metadata.emplace_back("adapter.lora.alpha", static_cast<float>(alpha));
  const fs::path growing = file.parent_path() / ("." + file.filename().string() + ".partial");
  GgufWriter writer(growing, metadata, specs);
  const auto read = [&](const nn::Parameter& p) {
    at::Tensor values = at::empty(p.shape, at::kFloat);
    source.read(p, 0, values.numel(), values.view(-1));
    return values;
  };
  for (const Change& change : changes) {
    const at::Tensor a = read(*change.a);
    writer.write(change.embedding ? a.t() : a);
    const double factor = change.scale * static_cast<double>(change.a->shape[0]) / alpha;
    const at::Tensor b = rows_for_rope(family, config, change.weight, read(*change.b));
    writer.write(factor == 1 ? b : b * factor);
  }
  writer.finish();
  publish_written(growing, file);
  return {static_cast<int64_t>(specs.size()), check_supported(family, config)};
}

}  // namespace trainer::gguf
