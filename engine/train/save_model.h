#pragma once

#include <filesystem>

#include "engine/checkpoint/saver.h"
#include "engine/config/plan.h"
#include "engine/parallel/parallel_model.h"
#include "engine/prepare/inputs.h"
#include "engine/train/build.h"

namespace trainer::train {

/// Collective. What the run leaves for others in `folder`, each file published whole: an adapter folder that PEFT
/// loads, or a model folder that transformers loads. Both have the tokenizer and its chat template, where there is one.
void save_model(parallel::ParallelModel& model, const config::Plan& plan, const config::LoraConfig& lora,
                const prepare::Inputs& inputs, const std::filesystem::path& folder);

/// Collective. Puts into a checkpoint, later, what makes it of use to others: the adapter folder's files, or what a
/// model folder needs besides weights. Adapters are as they are now; `inputs` must outlive the result.
checkpoint::Saver::Also beside_checkpoint(parallel::ParallelModel& model, const config::Plan& plan,
                                          const config::LoraConfig& lora, const prepare::Inputs& inputs);

}  // namespace trainer::train
