// The tables of all sections; each is created on first use and lives until the program ends.
#pragma once

#include "engine/config/schema.h"

namespace trainer::config {

const Entries& root_table();  // of Config; contains the others
const Entries& fsdp_table();
const Entries& deepspeed_table();
const Entries& megatron_table();
const Entries& parallelism_table();
const Entries& fp8_table();
const Entries& dynamo_table();
const Entries& mpirun_table();
const Entries& ipex_table();
const Entries& tp_table();
const Entries& model_table();
const Entries& quantization_table();
const Entries& tokenizer_table();
const Entries& source_table();
const Entries& validation_table();
const Entries& megatron_data_table();
const Entries& data_table();
const Entries& lora_table();
const Entries& dpo_table();
const Entries& training_table();
const Entries& training_arguments_table();  // other programs' keys in `training`
const Entries& trl_keys();                  // of TRL's SFTConfig and DPOConfig
const Entries& sft_keys();                  // of its SFTConfig: in `training` and `data`
const Entries& accelerator_table();
const Entries& loss_scaling_table();
const Entries& schedule_table();
const Entries& power_sgd_table();
const Entries& checkpoint_table();
const Entries& evaluation_table();
const Entries& logging_table();

/// Conditions that several tables use.
inline bool validates(const Config& config) {
  return config.data.validation.fraction > 0 || !config.data.validation.path.empty();
}
inline bool several_machines(const Config& config) {
  return config.num_machines > 1;
}
inline bool data_parallel(const Config& config) {
  return config.distributed_type == DistributedType::kDataParallel;
}
inline bool several_ranks(const Config& config) {
  return config.distributed_type != DistributedType::kNo && !data_parallel(config);
}
/// Whether every rank holds the whole model and gradients are averaged: where DDP's options apply.
inline bool uses_ddp(const Config& config) {
  return config.distributed_type == DistributedType::kMultiCpu || config.distributed_type == DistributedType::kMultiGpu;
}
/// Whether shards stay in host memory, if ranks train on GPUs.
inline bool offloads(const Config& config) {
  return config.distributed_type == DistributedType::kFsdp && config.fsdp_config.offload_params;
}
/// Whether a rank can keep the output of its encoder: it runs all of it, by itself.
inline bool may_keep_encoder_output(const Config& config) {
  const bool whole = config.distributed_type == DistributedType::kNo || uses_ddp(config);
  const ParallelismConfig mesh = config.parallelism_config.value_or(ParallelismConfig{});
  return config.data.task == Task::kSeq2SeqLm && whole && mesh.tp_size * mesh.cp_size * mesh.pp_size == 1;
}
/// Whether activations are recomputed in the backward pass, by training's key or FSDP's.
inline bool recomputes(const Config& config) {
  return config.training.gradient_checkpointing || config.fsdp_config.activation_checkpointing;
}

}  // namespace trainer::config
