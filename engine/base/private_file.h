#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainer {

/// The content of a file that holds a secret. Errors: ConfigError when other users of this machine can read it, or it
/// can't be read.
std::string read_private_file(const std::filesystem::path& path, int64_t limit);

}  // namespace trainer
