// Content hashes, which name the results derived from files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

/// The 128-bit hash of `text` as 32 hexadecimal digits. Source: XXH3.
std::string text_hash(std::string_view text);

/// The same hash of each file's content. Hashes of unchanged files (same path, inode, size and modification time) are
/// remembered in `memory`, an existing folder, so that a second run does not read 10 GB again.
/// Errors: InputError.
std::vector<std::string> file_hashes(const std::vector<std::string>& paths, const std::filesystem::path& memory);

/// Device, inode, size and modification time: differs when the file was written to in between. Errors: InputError.
std::string file_state(const std::string& path);

}  // namespace trainer::data
