// Translates other programs' keys to our options; later code doesn't depend on their dialects.
#pragma once

#include "engine/config/plan/reader.h"

namespace trainer::config {

/// Translates every dialect, in an order in which later ones can build on earlier ones.
void translate(Draft& draft);

void translate_machines(Draft& draft);            // num_machines: "1:4"
void translate_accelerate(Draft& draft);          // older spellings
void default_ranks(Draft& draft);                 // one for each GPU, as under Accelerate and torchrun
void translate_training_arguments(Draft& draft);  // TrainingArguments under `training`
void translate_report_to(Draft& draft);           // logging.report_to: all, wandb, …
void translate_fsdp_argument(Draft& draft);       // training.fsdp and training.fsdp_config
void translate_deepspeed(Draft& draft);           // deepspeed_config and ds_config.json
void translate_megatron(Draft& draft);            // megatron_lm_config
void translate_strategy(Draft& draft);            // strategies that are equivalent to another one
void translate_use_cpu(Draft& draft);             // a file for GPUs or other vendors' devices, on the CPU
void translate_alone(Draft& draft);               // NO runs one process, regardless of num_processes
void translate_backend(Draft& draft);             // NCCL by default on GPUs, and never on the CPU

}  // namespace trainer::config
