#include "engine/config/convert/recognize.h"

#include <algorithm>

#include "engine/config/tables.h"

namespace trainer::config {
namespace {

using Keys = std::vector<std::string>;

/// The file must have a few of TrainingArguments' keys to be taken for one: single ones occur in many files.
constexpr int64_t kFewKeys = 3;

// TRL's files and LLaMA-Factory's both have model_name_or_path. Only one of the two programs has these.
const Keys kLlamaFactory{"stage",       "finetuning_type", "template",         "dataset",
                         "dataset_dir", "eval_dataset",    "cutoff_len",       "lora_rank",
                         "lora_target", "pref_loss",       "pref_beta",        "adapter_name_or_path",
                         "export_dir",  "infer_backend",   "quantization_bit", "val_size",
                         "max_samples", "overwrite_cache", "train_on_prompt",  "mask_history"};
const Keys kTrl{"use_peft",
                "dataset_name",
                "dataset_config",
                "dataset_train_split",
                "dataset_test_split",
                "dataset_num_proc",
                "dataset_mixture",
                "dataset_mixer",
                "datasets",
                "lora_r",
                "lora_target_modules",
                "lora_modules_to_save",
                "lora_task_type",
                "use_bnb_nested_quant",
                "bnb_4bit_quant_type",
                "attn_implementation",
                "dtype",
                "torch_dtype"};
const Keys kTrlSft{"dataset_text_field",
                   "dataset_kwargs",
                   "packing_strategy",
                   "eval_packing",
                   "completion_only_loss",
                   "eos_token",
                   "chat_template_path",
                   "shuffle_dataset",
                   "assistant_only_loss",
                   "max_seq_length",
                   "packing"};
const Keys kTrlDpo{"beta",
                   "loss_weights",
                   "label_smoothing",
                   "rpo_alpha",
                   "precompute_ref_log_probs",
                   "precompute_ref_batch_size",
                   "disable_dropout",
                   "reference_free",
                   "sync_ref_model",
                   "ref_model_mixup_alpha",
                   "ref_model_sync_steps",
                   "force_use_ref_model",
                   "f_divergence_type",
                   "f_alpha_divergence_coef",
                   "discopop_tau",
                   "ld_alpha",
                   "use_weighting",
                   "max_prompt_length",
                   "generate_during_eval"};
/// Of TRL's other commands.
const Keys kTrlOthers{"num_generations",  "num_iterations",     "reward_funcs",
                      "reward_weights",   "scale_rewards",      "use_vllm",
                      "vllm_mode",        "reward_model_path",  "reward_model_name_or_path",
                      "desirable_weight", "undesirable_weight", "center_rewards_coefficient"};

Keys present(const Node& document, const Keys& keys) {
  Keys found;
  for (const std::string& key : keys)
    if (document.find(key)) found.push_back(key);
  return found;
}

const Dialect& named(const std::string& name) {
  const auto& all = dialects();
  return *std::find_if(all.begin(), all.end(), [&](const Dialect& dialect) { return dialect.name == name; });
}

/// `trl sft` or `trl dpo`. Both read the same keys about models and datasets; `common` has those of the file.
Recognized command_of_trl(const Node& document, const Keys& common, const std::string& file) {
  if (const Keys others = present(document, kTrlOthers); !others.empty())
    throw ConfigError("{}: has {}, of another command of TRL; the files of trl sft and trl dpo can be converted", file,
                      fmt::join(others, ", "));
  Keys sft = present(document, kTrlSft), dpo = present(document, kTrlDpo);
  if (const Node* const loss = document.find("loss_type")) {
    const std::string word = loss->is_scalar() ? lower(loss->text) : "";
    (word == "nll" || word == "chunked_nll" || word == "dft" ? sft : dpo).emplace_back("loss_type");
  }
  if (!sft.empty() && !dpo.empty())
    throw ConfigError(
        "{}: has keys of TRL's SFTConfig ({}) and of its DPOConfig ({}); name the one that it is for: --from trl_sft "
        "or --from trl_dpo",
        file, fmt::join(sft, ", "), fmt::join(dpo, ", "));
  if (sft.empty() && dpo.empty())
    throw ConfigError(
        "{}: is TRL's, by {}, but has no key that only trl sft or only trl dpo reads; name the command that it is for: "
        "--from trl_sft or --from trl_dpo",
        file, fmt::join(common, ", "));
  return dpo.empty() ? Recognized{&named("trl_sft"), sft} : Recognized{&named("trl_dpo"), dpo};
}

/// TRL's and LLaMA-Factory's files; null if it is neither.
Recognized with_model_name_or_path(const Node& document, const std::string& file) {
  const Keys factory = present(document, kLlamaFactory), common = present(document, kTrl);
  Keys trl = common;
  for (const Keys& keys : {kTrlSft, kTrlDpo, kTrlOthers})
    for (const std::string& key : present(document, keys))
      if (key != "packing") trl.push_back(key);  // LLaMA-Factory has it too
  const bool model = document.find("model_name_or_path") != nullptr;
  if (model && !factory.empty() && !trl.empty())
    throw ConfigError(
        "{}: has keys of LLaMA-Factory ({}) and of TRL ({}); remove those of one of them, or name the program with "
        "--from: the keys of the other one are then listed as unknown",
        file, fmt::join(factory, ", "), fmt::join(trl, ", "));
  if (model && !factory.empty()) return {&named("llamafactory"), factory};
  const bool script = document.find("use_peft") || document.find("dataset_name");  // the model: on the command line
  if (script || (model && !trl.empty())) return command_of_trl(document, common.empty() ? trl : common, file);
  if (model)
    throw ConfigError(
        "{}: has model_name_or_path, as LLaMA-Factory's files and TRL's do, but no key that only one of them has; name "
        "the program: --from llamafactory, trl_sft or trl_dpo",
        file);
  return {nullptr, {}};
}

/// Files that consist of TrainingArguments' keys, with those of TRL's subclasses of it if they have them.
Recognized arguments(const Node& document, const std::string& file) {
  const Entries& table = training_table();
  const auto known = std::count_if(document.members.begin(), document.members.end(), [&](const Member& member) {
    return std::any_of(table.begin(), table.end(), [&](const Entry& entry) { return entry.has_key(member.key); });
  });
  if (known < kFewKeys || 2 * known <= static_cast<int64_t>(document.members.size())) return {nullptr, {}};
  Keys trl;
  for (const Keys& keys : {kTrlSft, kTrlDpo})
    for (const std::string& key : present(document, keys)) trl.push_back(key);
  if (!trl.empty()) return command_of_trl(document, trl, file);
  return {&named("training_arguments"), {}};
}

}  // namespace

Recognized recognized(const Node& document, const std::string& from, const std::string& file) {
  Keys names;
  for (const Dialect& dialect : dialects()) {
    if (dialect.name == from) return {&dialect, {}};
    names.emplace_back(dialect.name);
  }
  if (!from.empty())
    throw ConfigError("--from {}: must be one of {}{}", shown(from), fmt::join(names, ", "), did_you_mean(from, names));
  if (document.find("base_model")) return {&named("axolotl"), {"base_model"}};
  if (Recognized found = with_model_name_or_path(document, file); found.dialect) return found;
  if (Recognized found = arguments(document, file); found.dialect) return found;
  throw ConfigError(
      "{}: is none of the files that can be converted: axolotl's have base_model, LLaMA-Factory's and TRL's have "
      "model_name_or_path, and TrainingArguments consist of their own keys\n  --from names the program if you know it; "
      "Accelerate's files need no conversion",
      file);
}

}  // namespace trainer::config
