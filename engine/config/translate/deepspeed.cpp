// DeepSpeed's configuration: Accelerate's keys for it, or a ds_config.json.
#include "engine/config/translate/deepspeed.h"

#include "engine/config/rules/rules.h"
#include "engine/config/translate/translate.h"

namespace trainer::config {
namespace {

const std::string kType = "distributed_type";

/// True if the configuration is for DeepSpeed. As in Hugging Face's Trainer, training.deepspeed is sufficient.
bool asked_for(Draft& draft) {
  Config& config = draft.config;
  const GivenKey argument = deepspeed_argument(draft);
  if (config.distributed_type == DistributedType::kDeepspeed || argument.value.is_null()) {
    return config.distributed_type == DistributedType::kDeepspeed;
  }
  const bool open = config.distributed_type == DistributedType::kNo ||
                    config.distributed_type == DistributedType::kMultiCpu ||
                    config.distributed_type == DistributedType::kMultiGpu;
  if (!open) {
    draft.problems.add(
        argument.mark, argument.key,
        fmt::format("training.deepspeed asks for DeepSpeed, but distributed_type is {} ({}): give one of them",
                    name_of(config.distributed_type), to_string(draft.mark(kType))),
        "one-value");
    return false;
  }
  if (config.distributed_type == DistributedType::kNo && draft.is_set(kType) && !draft.is_set("num_processes")) {
    Translation(draft).set(argument, "num_processes", Node::scalar("1"));  // as for NO
  }
  if (config.distributed_type == DistributedType::kMultiCpu) config.use_cpu = true;  // which MULTI_CPU implies
  if (!draft.is_set(kType)) draft.origins[kType] = argument.mark;
  return true;
}

/// With DeepSpeed, fsdp_config has no effect; DeepSpeed's translated keys are written to it.
void clear_fsdp(Draft& draft) {
  auto inside = draft.origins.lower_bound("fsdp_config.");
  if (inside == draft.origins.end() || !inside->first.starts_with("fsdp_config.")) return;
  draft.warnings.push_back(
      fmt::format("{}: fsdp_config has no effect unless distributed_type is FSDP", to_string(inside->second)));
  draft.config.fsdp_config = {};
  std::erase_if(draft.origins, [](const auto& origin) { return origin.first.starts_with("fsdp_config."); });
}

/// Moves an option whose default is auto.
void move_option(Draft& draft, const std::string& from, const std::string& to) {
  Translation translation(draft);
  const GivenKey given = translation.option(from);
  if (given.value.text != "auto" && !draft.problems.about(from)) translation.set(given, to, given.value);
}

GivenKey or_at(GivenKey key, const Mark& mark) {
  if (!key.mark.source) key.mark = mark;
  return key;
}

/// Accelerate's keys, used without a ds_config.json.
void translate_keys(Draft& draft) {
  const std::string in = "deepspeed_config.";
  if (!draft.config.deepspeed_config) draft.config.deepspeed_config.emplace();
  Translation translation(draft);
  ZeroKeys zero{or_at(translation.option(in + "zero_stage"), draft.mark(kType)), {}, {}};
  const int64_t stage = draft.config.deepspeed_config->zero_stage;  // if it shards nothing, check_section has warned
  if (stage >= 1) zero.offload_optimizer = translation.option(in + "offload_optimizer_device");
  if (stage == 3) zero.offload_param = translation.option(in + "offload_param_device");
  translate_zero(draft, zero);
  move_option(draft, in + "gradient_accumulation_steps", "training.gradient_accumulation_steps");
  move_option(draft, in + "gradient_clipping", "training.max_grad_norm");
}

/// `key`, or the boolean that older files have instead.
GivenKey offload(DsDocument& ds, const std::string& key, const std::string& older, bool by_older) {
  const std::string in = "zero_optimization.";
  return by_older && !ds.has(in + key + ".device") ? ds.key(in + older) : ds.key(in + key + ".device");
}

void translate_document(Draft& draft, DsDocument& ds) {
  const DsZero& zero = ds.config().zero_optimization;
  translate_zero(draft, {or_at(ds.key("zero_optimization.stage"), draft.mark(kType)),
                         offload(ds, "offload_optimizer", "cpu_offload", zero.cpu_offload),
                         offload(ds, "offload_param", "cpu_offload_param", zero.cpu_offload_param),
                         ds.key("zero_optimization.offload_optimizer.pin_memory"),
                         ds.key("zero_optimization.offload_param.pin_memory")});
  if (const GivenKey size = Translation(draft).foreign("ds_config.tensor_parallel.autotp_size");
      !size.value.is_null() && size.value.text != "0" && size.value.text != "1")
    Translation(draft).set(size, "parallelism_config.parallelism_config_tp_size", size.value);
  Translation(draft).set_if_true("ds_config.activation_checkpointing.cpu_checkpointing",
                                 "training.activation_offloading");
  translate_precision(draft, ds);
  translate_batch(draft, ds);
  ds.set("gradient_clipping", "training.max_grad_norm");
  ds.set("dataloader_drop_last", "training.dataloader_drop_last");
  translate_optimizer(draft, ds);
  translate_scheduler(draft, ds);
}

}  // namespace

void translate_deepspeed(Draft& draft) {
  if (!asked_for(draft)) return;
  clear_fsdp(draft);
  const GivenKey source = ds_config_source(draft);
  DsDocument ds(draft);
  const bool has_document = !source.value.is_null() && ds.read(source);
  if (draft.config.deepspeed_config) check_section(draft, "deepspeed_config");
  if (const GivenKey port = Translation(draft).foreign("deepspeed_config.main_process_port"); !port.value.is_null())
    Translation(draft).set(port, "main_process_port", port.value);
  if (source.value.is_null()) {
    translate_keys(draft);
  } else if (has_document) {
    check_beside_file(draft, ds);
    translate_document(draft, ds);
  }
  draft.config.deepspeed_config.reset();
}

}  // namespace trainer::config
