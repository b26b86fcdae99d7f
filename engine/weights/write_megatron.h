// Writes a model in Megatron's layout.
#pragma once

#include <filesystem>

#include "engine/weights/megatron_layout.h"
#include "engine/weights/whole_weights.h"

namespace trainer::checkpoint {

/// Writes `weights`, opened from the folder `source`, to the folder `output` in Megatron's layout
/// (Note [Megatron's folders]), partitioned for `degrees` ranks: safetensors instead of pickles, next to Hugging Face's
/// config.json and the tokenizer's files. A checkpoint becomes the iteration of its step, a model folder the "release".
/// Rows that pad the vocabulary are copies of its last one, as in Megatron's own converter. Errors: ConfigError when
/// the model can't be partitioned this way, or `output` already holds weights; MachineError.
void write_megatron(const WholeWeights& weights, const std::filesystem::path& source,
                    const std::filesystem::path& output, const MegatronDegrees& degrees);

}  // namespace trainer::checkpoint
