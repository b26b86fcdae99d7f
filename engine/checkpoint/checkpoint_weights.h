// The weights of a whole model from any supported format.
#pragma once

#include <filesystem>

#include "engine/weights/whole_weights.h"

namespace trainer::checkpoint {

/// Opens a checkpoint (after verifying every byte), a Hugging Face model folder, or a folder in Megatron's layout, of a
/// family with LLaMA's architecture.
/// Errors: InputError when it is none of them, or is damaged; ConfigError for adapters and other families.
WholeWeights open_whole_weights(const std::filesystem::path& folder);

}  // namespace trainer::checkpoint
