#pragma once

#include <filesystem>

#include "data/tokenizers/tokenizer.h"
#include "engine/config/plan.h"
#include "engine/parallel/parallel_model.h"
#include "engine/train/build.h"

namespace trainer::train {

/// Collective. What the run leaves for others in `folder`, each file published whole: an adapter folder that PEFT
/// loads, or a model folder that transformers loads (with the tokenizer's files, where there is one).
void save_model(parallel::ParallelModel& model, const config::Plan& plan, const config::LoraConfig& lora,
                const data::Tokenizer* tokenizer, const std::filesystem::path& folder);

}  // namespace trainer::train
