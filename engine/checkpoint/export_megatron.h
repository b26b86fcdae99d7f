#pragma once

#include <filesystem>

#include "engine/checkpoint/megatron_layout.h"

namespace trainer::checkpoint {

/// Writes the model of `source` (open_whole_weights()) to the folder `output` in Megatron's layout
/// ([Note Megatron's folders]), shared among `degrees` ranks: safetensors instead of pickles, Hugging Face's
/// config.json and the tokenizer's files beside them. Of a checkpoint it is the iteration of its step, of a model
/// folder the "release". Rows that pad the vocabulary are copies of its last one, as Megatron's own converter makes
/// them. Errors: InputError when the source isn't whole or of another architecture; ConfigError when the model can't be
/// shared so, or `output` holds weights already; MachineError.
void export_megatron(const std::filesystem::path& source, const std::filesystem::path& output,
                     const MegatronDegrees& degrees);

}  // namespace trainer::checkpoint
