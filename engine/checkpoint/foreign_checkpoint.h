// Checkpoint folders of other programs, recognised by their files.
#pragma once

#include <filesystem>
#include <string>

namespace trainer::checkpoint {

/// What `folder`, which is no checkpoint of ours, is instead, and how to go on from it: "; it is a checkpoint of …\n
/// …".
/// "" when it is nothing we know.
std::string foreign_checkpoint(const std::filesystem::path& folder);

}  // namespace trainer::checkpoint
