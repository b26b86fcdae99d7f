// Checkpoint folders of other programs, recognized by their files.
#pragma once

#include <filesystem>
#include <string>

namespace trainer::checkpoint {

/// Describes `folder`, which isn't a checkpoint of trainer, and how to continue from it: "; it is a … checkpoint\n …".
/// "" when its format is unknown.
std::string foreign_checkpoint(const std::filesystem::path& folder);

}  // namespace trainer::checkpoint
