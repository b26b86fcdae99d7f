// The questions after Accelerate's: aim, model, samples, adapters, training, checkpoints, logging.
#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/base/human.h"
#include "engine/config/wizard/asker.h"
#include "engine/config/wizard/sizes.h"

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

/// Whether training all weights would not fit this machine, and if so, reports it.
bool needs_adapters(Asker& ask, const std::optional<ModelDescription>& model) {
  const int64_t limit = bytes_for_model(ask.config(), ask.machine());
  if (!model || limit == 0 || bytes_to_train(model->parameters) <= limit) return false;
  ask.say(fmt::format("  Training all its weights takes {} and activations; this machine has {} for them.",
                      human_bytes(bytes_to_train(model->parameters)), human_bytes(limit)));
  return true;
}

/// Weights of a new model are all trained: adapters would leave it random.
void ask_adapters(Asker& ask, const std::optional<ModelDescription>& model, const Aim& aim) {
  WizardDraft& draft = ask.draft();
  if (aim.from_scratch || !ask.yes("Do you want to train LoRA adapters instead of all weights?",
                                   draft.config.lora.has_value() || needs_adapters(ask, model),
                                   "yes: the model's weights stay as they are; small matrices added to some of its\n"
                                   "layers are trained, with a fraction of the memory, and saved as a small file.\n"
                                   "no: all weights are trained, which can learn more.\nIn the file: lora")) {
    draft.erase("lora");
    return;
  }
  for (const char* const option : {"lora.r", "lora.lora_alpha", "lora.lora_dropout"}) ask.option(option);
  if (model) ask.say("  Its linear layers: " + model->linear_text());
  ask.option("lora.target_modules", {.fallback = model ? fmt::format("{}", fmt::join(model->lora_targets, ",")) : "",
                                     .fits = [&] { return missing_layers(*draft.config.lora, model); }});
}

/// The Trainer's 5e-5 suits all weights of a pretrained model; adapters and new models need larger steps, preferences
/// smaller ones (TRL's defaults).
std::string usual_learning_rate(const Config& config, const Aim& aim) {
  if (config.dpo) return config.lora ? "1e-5" : "1e-6";
  if (config.lora) return "2e-4";
  if (aim.from_scratch && aim.goal == Goal::kClassify) return "1e-4";  // 5e-4 stays at the most frequent class
  return aim.from_scratch ? "5e-4" : "";
}

/// A new transformer diverges, or stays at the most frequent class, when its first updates are full ones.
void settle_warmup(Asker& ask, const Aim& aim) {
  const std::string option = "training.warmup_steps";
  if (!aim.from_scratch || aim.goal == Goal::kImages) return;
  if (ask.draft().has(option) || ask.draft().has("training.lr_scheduler_type")) return;
  ask.draft().assign(option, Node::scalar("0.1"));
  ask.say("  The rate rises during the first tenth of the updates (training.warmup_steps).");
}

bool holds_run(Asker& ask, const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(ask.opened(folder)) / "metrics.jsonl", ignored);
}

/// "" or why the results can't go to the folder.
std::string unfit_output(Asker& ask) {
  const std::string& model = ask.config().model.path;
  std::error_code ignored;
  if (model.empty() || !std::filesystem::equivalent(ask.opened(ask.config().output_dir), ask.opened(model), ignored))
    return "";
  return "This is the model's folder, whose weights the run reads. Enter another folder.";
}

/// The option's default; if an earlier run has it, the first of default_2, default_3, … that none has: a new file is
/// another run.
std::string usual_output(Asker& ask) {
  const std::string usual = ask.config().output_dir;
  std::string folder = usual;
  for (int number = 2; holds_run(ask, folder); ++number) folder = fmt::format("{}_{}", usual, number);
  return folder;
}

void ask_output(Asker& ask) {
  ask.option("output_dir", {.fallback = usual_output(ask), .fits = [&] { return unfit_output(ask); }});
  const std::string& folder = ask.config().output_dir;
  if (holds_run(ask, folder))
    ask.say(fmt::format("  {} holds an earlier run: with the same data and model, this one continues it.",
                        ask.opened(folder)));
}

/// One process computes with one thread unless the file gives it the machine's cores.
void settle_threads(Asker& ask) {
  const std::string option = "num_cpu_threads_per_process";
  const Config& config = ask.config();
  const bool alone = config.distributed_type == DistributedType::kNo && config.use_cpu;
  const bool trains = !config.data.train.path.empty();  // the input may have ended after Accelerate's questions
  if (!alone || !trains || ask.machine().cores < 2 || ask.draft().has(option)) return;
  ask.draft().assign(option, encode(ask.machine().cores));
}

}  // namespace

void ask_training(Asker& ask) {
  const std::optional<Aim> aim = ask_aim(ask);
  if (!aim) return;
  ask_model(ask, *aim);
  const std::optional<ModelDescription> model = ask.model();
  use_model(ask, model);
  ask_data(ask, aim->goal);
  ask_adapters(ask, model, *aim);
  ask.option("training.per_device_train_batch_size");
  ask.option("training.num_train_epochs");
  ask.option("training.learning_rate", {.fallback = usual_learning_rate(ask.config(), *aim)});
  settle_warmup(ask, *aim);
  for (const char* const option : {"checkpoint.save_steps", "checkpoint.save_total_limit", "logging.logging_steps"})
    ask.option(option);
  ask_output(ask);
  settle_threads(ask);
}

}  // namespace trainer::config
