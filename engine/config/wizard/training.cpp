// The questions after Accelerate's: task, model, samples, adapters, training, checkpoints, logging.
#include <algorithm>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/config/tables.h"
#include "engine/config/wizard/asker.h"

namespace trainer::config {
namespace {

/// "" or which class to wrap with FSDP the model doesn't have. Patterns of names are not checked.
std::string missing_class(const std::vector<std::string>& wrapped, const ModelDescription& model) {
  const auto& all = model.classes;
  for (const std::string& name : wrapped)
    if (!all.empty() && name.find_first_of(".*?[") == std::string::npos &&
        std::count(all.begin(), all.end(), name) == 0)
      return fmt::format("FSDP should wrap {}, but the model has no such class; its blocks are {}.", name,
                         model.block_classes());
  return "";
}

/// Describes the model. Its blocks become FSDP's layers if none were given; classes that it doesn't have are asked for
/// again.
void use_model(Asker& ask, const std::optional<ModelDescription>& model) {
  if (!model) return;
  ask.say("  " + model->text());
  const std::string layers = "fsdp_config.fsdp_transformer_layer_cls_to_wrap";
  const Config& config = ask.config();
  const std::vector<std::string>& wrapped = config.fsdp_config.transformer_layer_cls_to_wrap;
  const bool wraps = config.distributed_type == DistributedType::kFsdp &&
                     config.fsdp_config.auto_wrap_policy == WrapPolicy::kTransformerBased;
  if (!wraps || !ask.draft().has(layers)) return;
  if (const std::string why = missing_class(wrapped, *model); !why.empty()) {
    ask.say("  " + why);
    ask.draft().erase(layers);
    ask.option(layers, {.fallback = model->block_classes(), .fits = [&] { return missing_class(wrapped, *model); }});
  } else if (wrapped.empty()) {
    ask.draft().set(layers, Node::scalar(model->block_classes()));
    ask.say("  FSDP wraps " + model->block_classes() + ".");
  }
}

/// "" or which target layer the model doesn't have. Patterns and dotted names are not checked.
std::string missing_layers(const LoraConfig& lora, const std::optional<ModelDescription>& model) {
  if (!model || model->adaptable.empty()) return "";
  const auto& all = model->adaptable;
  for (const std::string& name : lora.target_modules.names)
    if (name.find('.') == std::string::npos && std::count(all.begin(), all.end(), name) == 0)
      return fmt::format("The model has no layer '{}'{}; adapters are possible for {}.", name, did_you_mean(name, all),
                         fmt::join(all, ", "));
  return "";
}

void ask_adapters(Asker& ask, const std::optional<ModelDescription>& model) {
  WizardDraft& draft = ask.draft();
  if (!ask.yes("Do you want to train LoRA adapters instead of all weights?", draft.config.lora.has_value())) {
    draft.erase("lora");
    return;
  }
  for (const char* const option : {"lora.r", "lora.lora_alpha", "lora.lora_dropout"}) ask.option(option);
  if (model) ask.say("  Its linear layers: " + model->linear_text());
  ask.option("lora.target_modules", {.fallback = model ? fmt::format("{}", fmt::join(model->lora_targets, ",")) : "",
                                     .fits = [&] { return missing_layers(*draft.config.lora, model); }});
}

}  // namespace

void ask_training(Asker& ask) {
  if (!ask_task(ask)) return;
  ask_model(ask);
  const std::optional<ModelDescription> model = ask.model();
  use_model(ask, model);
  ask_data(ask);
  ask_adapters(ask, model);
  for (const char* const option :
       {"training.per_device_train_batch_size", "training.num_train_epochs", "training.learning_rate",
        "checkpoint.save_steps", "checkpoint.save_total_limit", "logging.logging_steps"}) {
    ask.option(option);
  }
  ask.option("output_dir");
}

}  // namespace trainer::config
