// Megatron-LM's keys. Its degrees become sizes of the mesh; if all of them are 1, the run is data parallel.
#include "engine/config/machine/device.h"
#include "engine/config/rules/rules.h"
#include "engine/config/translate/translate.h"
#include "engine/config/translate/translation.h"

namespace trainer::config {
namespace {

struct Moved {
  const char* key;
  const char* to;
};

/// Sizes of the mesh; 1 requests nothing.
constexpr Moved kDegrees[] = {
    {"megatron_lm_config.megatron_lm_tp_degree", "parallelism_config.parallelism_config_tp_size"},
    {"megatron_lm_config.megatron_lm_pp_degree", "parallelism_config.parallelism_config_pp_size"}};

void translate_section(Draft& draft, const MegatronConfig& megatron) {
  Translation translation(draft);
  for (const auto& [key, to] : kDegrees) {
    const GivenKey degree = translation.option(key);
    if (degree.value.text != "1" && !draft.problems.about(key)) translation.set(degree, to, degree.value);
  }
  if (const GivenKey context = translation.foreign("megatron_lm_config.megatron_lm_context_parallel_size");
      context.mark.source && context.value.text != "1")
    translation.set(context, "parallelism_config.parallelism_config_cp_size", context.value);
  if (const GivenKey rows = translation.option("megatron_lm_config.megatron_lm_sequence_parallelism");
      megatron.sequence_parallelism && megatron.tp_degree > 1)
    translation.set(rows, "parallelism_config.parallelism_config_tp_sequence_parallel", encode(true));
  if (const GivenKey last = translation.foreign("megatron_lm_config.megatron_lm_decoder_last_pipeline_num_layers");
      last.mark.source)
    translation.set(last, "parallelism_config.parallelism_config_pp_last_blocks", last.value);
  if (const GivenKey offload = translation.foreign("megatron_lm_config.megatron_lm_optimizer_cpu_offload");
      parse_bool(offload.value.text).value_or(false) && asks_for_gpus(draft.config))
    translation.refuse(offload, "optimizer state stays on the GPU that uses it; leave it out");
  // The micro-batches that go through a pipeline are the gradient accumulation steps of an update.
  const GivenKey micro_batches = translation.option("megatron_lm_config.megatron_lm_num_micro_batches");
  if (micro_batches.value.text != "1" && !draft.problems.about(micro_batches.key))
    translation.set(micro_batches, "training.gradient_accumulation_steps", micro_batches.value);
  const GivenKey clipping = translation.option("megatron_lm_config.megatron_lm_gradient_clipping");
  if (!draft.problems.about(clipping.key)) translation.set(clipping, "training.max_grad_norm", clipping.value);
  if (megatron.recompute_activations) {
    const GivenKey recompute = translation.option("megatron_lm_config.megatron_lm_recompute_activations");
    translation.set(recompute, "training.gradient_checkpointing", encode(true));
  }
}

}  // namespace

void translate_megatron(Draft& draft) {
  Config& config = draft.config;
  if (config.distributed_type != DistributedType::kMegatronLm) return;
  if (config.megatron_lm_config) {
    check_section(draft, "megatron_lm_config");
    translate_section(draft, *config.megatron_lm_config);
    config.megatron_lm_config.reset();
  }
  config.distributed_type = DistributedType::kMultiGpu;
  draft.translated.push_back(translated_note(
      "distributed_type", "MEGATRON_LM", to_string(draft.mark("distributed_type")), "distributed_type", "MULTI_GPU"));
}

}  // namespace trainer::config
