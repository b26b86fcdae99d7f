// Names for what was made out of files: equal content, equal name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

/// 128 bits of `text` as 32 hexadecimal digits. Source: XXH3.
std::string text_hash(std::string_view text);

/// The same of each file's content. What was hashed before and has not changed since (path, inode, size, time of the
/// last change) is remembered in `memory`, a folder that exists, so that a second run does not read 10 GB again.
/// Errors: InputError.
std::vector<std::string> file_hashes(const std::vector<std::string>& paths, const std::filesystem::path& memory);

/// Size and time of the last change: differs when a file was written to meanwhile. Errors: InputError.
std::string file_state(const std::string& path);

}  // namespace trainer::data
