#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/save_tokenizer.h"
#include "engine/checkpoint/saver.h"
#include "engine/config/plan/plan.h"
#include "engine/parallel/parallel_model.h"
#include "engine/train/build.h"

namespace trainer::train {

/// A run's tokenizer as it was when the run began; null for images, and on ranks that don't save it.
using TokenizerOfRun = std::shared_ptr<const data::SavedTokenizer>;

/// Collective. Writes the run's result to `folder`, each file atomically: an adapter folder that PEFT loads, or a model
/// folder that transformers loads. Both have the files of `tokenizer`. Whenever the process dies,
/// the folder has the old weights with the old files, the new ones with the new, or none. `key` signs them, if rank 0
/// has one.
void save_model(parallel::ParallelModel& model, const config::Plan& plan, const config::LoraConfig& lora,
                const TokenizerOfRun& tokenizer, const std::filesystem::path& folder,
                const checkpoint::SigningKey* key = nullptr);

/// Collective. Returns a function that adds to a checkpoint the files that other programs need: the adapter folder's
/// files, or a model folder's files except weights. It writes the adapters as they are now.
checkpoint::Saver::Also beside_checkpoint(parallel::ParallelModel& model, const config::Plan& plan,
                                          const config::LoraConfig& lora, const TokenizerOfRun& tokenizer);

}  // namespace trainer::train
