#pragma once

#include <filesystem>

namespace trainer::checkpoint {

/// Writes to `output` a folder that other programs load, from a checkpoint of any strategy and number of ranks: a PEFT
/// adapter folder or a transformers model folder, byte-identical to what the run would have left at that step. Every
/// byte of the checkpoint is verified first. A folder in Megatron's layout becomes a model folder.
/// Errors: InputError when it is damaged; MachineError; ConfigError when `output` already holds weights.
void export_checkpoint(const std::filesystem::path& source, const std::filesystem::path& output);

}  // namespace trainer::checkpoint
