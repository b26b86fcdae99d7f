#pragma once

#include <filesystem>

namespace trainer::checkpoint {

/// Makes `output` a folder that others load, from a checkpoint of any strategy and number of ranks: an adapter folder
/// of PEFT, or a model folder of transformers, with the same bytes that the run itself would have left at that step.
/// Every byte of the checkpoint is verified first. From a folder in Megatron's layout: a model folder.
/// Errors: InputError when it isn't whole; MachineError; ConfigError when `output` holds weights already.
void export_checkpoint(const std::filesystem::path& source, const std::filesystem::path& output);

}  // namespace trainer::checkpoint
