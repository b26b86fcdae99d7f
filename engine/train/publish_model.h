// The files of a model or adapter in its folder.
#pragma once

#include <filesystem>
#include <vector>

#include "data/tokenizers/save_tokenizer.h"

namespace trainer::train {

/// Publishes each file. Errors: MachineError.
void publish_files(const std::vector<data::TokenizerFile>& files, const std::filesystem::path& folder);

/// Publishes the finished file `growing` as `weights`, in the same folder, with the files beside it. These are several
/// renames, and a kill between two of them must not leave weights beside the configuration of others, which load
/// without an error (another lora_alpha). So if any of these files changes, the old weights go first, and the new ones
/// always come last. Errors: MachineError.
void publish_model(const std::filesystem::path& growing, const std::filesystem::path& weights,
                   const std::vector<data::TokenizerFile>& beside);

}  // namespace trainer::train
