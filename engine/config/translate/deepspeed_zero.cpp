// Translates ZeRO's stages to our parallelism, and precisions.
#include "engine/config/translate/deepspeed.h"

namespace trainer::config {
namespace {

struct Stage {
  int64_t stage;
  DistributedType type;
  std::optional<ShardingStrategy> strategy;
};

/// Our equivalent of each stage. Stage 1 shards only the optimizer state; it runs as stage 2, which also shards
/// gradients: the results are the same with less memory.
constexpr Stage kStages[] = {
    {0, DistributedType::kMultiGpu, std::nullopt},
    {1, DistributedType::kFsdp, ShardingStrategy::kShardGradOp},
    {2, DistributedType::kFsdp, ShardingStrategy::kShardGradOp},
    {3, DistributedType::kFsdp, ShardingStrategy::kFullShard},
};

/// `from_stage`: the first one that shards what is offloaded. Shards of all kinds are offloaded together.
void translate_offload(Draft& draft, const GivenKey& device, const GivenKey& pin, int64_t stage, int64_t from_stage) {
  Translation translation(draft);
  const std::string& text = device.value.text;  // or true in older files
  if (device.value.is_null() || text == "none" || draft.problems.about(device.key)) return;
  if (text == "nvme") {
    translation.refuse(device, "nothing is offloaded to disk; use cpu");
  } else if (stage >= from_stage) {
    translation.set(device, "fsdp_config.fsdp_offload_params", encode(true));
    if (pin.value.text == "false") translation.set(pin, "fsdp_config.fsdp_offload_pin_memory", encode(false));
  } else {
    translation.no_effect(device, stage == 0 ? "nothing is sharded, so there is nothing to offload"
                                             : "DeepSpeed offloads parameters only in stage 3");
  }
}

/// DeepSpeed's defaults are not those of torch.amp.GradScaler.
void translate_loss_scaling(DsDocument& ds) {
  const std::string in = "fp16.", to = "training.loss_scaling.";
  const std::pair<const char*, Node> defaults[] = {{"initial_scale_power", encode(int64_t{16})},
                                                   {"loss_scale_window", encode(int64_t{1000})},
                                                   {"hysteresis", encode(int64_t{2})},
                                                   {"min_loss_scale", encode(1.0)}};
  for (const auto& [key, value] : defaults) {
    ds.set(in + key, to + key);
    ds.assume(in + key, value, "fp16.enabled", to + key);
  }
  for (const char* const key : {"consecutive_hysteresis", "loss_scale"}) ds.set(in + key, to + key);
}

}  // namespace

void translate_zero(Draft& draft, const ZeroKeys& keys) {
  Config& config = draft.config;
  int64_t number = 0;
  if (draft.problems.about(keys.stage.key) || !decode(keys.stage.value, number).empty()) {
    draft.problems.mention("distributed_type");  // its final value is unknown
    return;
  }
  const Stage& stage = kStages[number];
  const GivenKey argument = deepspeed_argument(draft);
  const bool by_argument = config.distributed_type != DistributedType::kDeepspeed;
  draft.translated.push_back(translated_note(
      by_argument ? argument.key : "distributed_type", by_argument ? text_of(argument.value) : "DEEPSPEED",
      to_string(by_argument ? argument.mark : draft.mark("distributed_type")), "distributed_type", name_of(stage.type),
      fmt::format("{} is {}", keys.stage.key, number)));
  config.distributed_type = stage.type;
  if (stage.strategy) {
    Translation(draft).set(keys.stage, "fsdp_config.fsdp_sharding_strategy", encode(*stage.strategy));
  }
  translate_offload(draft, keys.offload_optimizer, keys.pin_optimizer, number, 1);
  translate_offload(draft, keys.offload_param, keys.pin_param, number, 3);
}

void translate_precision(Draft& draft, DsDocument& ds) {
  Translation translation(draft);
  const GivenKey fp16 = ds.key("fp16.enabled"), bf16 = ds.key("bf16.enabled");
  if (fp16.value.text == "true" && bf16.value.text == "true") {
    draft.problems.add(bf16.mark, bf16.key,
                       fmt::format("{} and {} ({}) exclude each other: set only one of them", bf16.key, fp16.key,
                                   to_string(fp16.mark)));
    return;
  }
  const std::pair<const GivenKey&, MixedPrecision> all[] = {{fp16, MixedPrecision::kFp16},
                                                            {bf16, MixedPrecision::kBf16}};
  for (const auto& [given, precision] : all) {
    if (given.value.text == "true") translation.set(given, "mixed_precision", encode(precision));
    const bool denied = given.value.text == "false" && draft.config.mixed_precision == precision;
    if (denied) translation.set(given, "mixed_precision", encode(MixedPrecision::kNo));
  }
  if (fp16.value.text == "true") translate_loss_scaling(ds);
}

}  // namespace trainer::config
