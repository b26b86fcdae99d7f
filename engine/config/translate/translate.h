// Other programs' keys as options of ours: nothing after this knows their dialects.
#pragma once

#include "engine/config/reader.h"

namespace trainer::config {

/// Every dialect, in an order in which later ones may build on earlier ones.
void translate(Draft& draft);

void translate_machines(Draft& draft);            // num_machines: "1:4"
void translate_accelerate(Draft& draft);          // older spellings
void translate_training_arguments(Draft& draft);  // TrainingArguments under `training`
void translate_fsdp_argument(Draft& draft);       // training.fsdp and training.fsdp_config
void translate_deepspeed(Draft& draft);           // deepspeed_config and ds_config.json
void translate_megatron(Draft& draft);            // megatron_lm_config
void translate_strategy(Draft& draft);            // strategies that come to another one here
void translate_use_cpu(Draft& draft);             // a file for GPUs or others' devices, on a CPU
void translate_alone(Draft& draft);               // NO runs one process, whatever num_processes says
void translate_backend(Draft& draft);             // NCCL on GPUs, unless something else is said, and never on a CPU

}  // namespace trainer::config
