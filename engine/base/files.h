// Reading whole files, and publishing files and folders so that nobody ever sees half of one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/errors.h"

namespace trainer {

/// The content of a file. Errors: InputError when it is missing, unreadable, no regular file, or longer than `limit`.
std::string read_file(const std::filesystem::path& path, int64_t limit = int64_t{1} << 30);

/// Makes `content` the file `path`, replacing an older one at once: after a crash there is the old file or the new one.
/// Errors: MachineError; the old file is then untouched and nothing is left beside it.
void publish_file(const std::filesystem::path& path, std::string_view content);

/// Makes the finished file `temp`, of the same folder, the file `path`, as publish_file does. Errors: MachineError.
void publish_written(const std::filesystem::path& temp, const std::filesystem::path& path);

/// Writes all of `content` to the open file `fd`; `path` is for the message. Errors: MachineError.
void write_all(int fd, std::string_view content, const std::filesystem::path& path);

/// Makes the folder `temp` and all its files appear as `final`, on the same file system; a folder that is already there
/// is replaced. Everything is on disk when this returns. Errors: MachineError; `final` is then as before.
void publish_folder(const std::filesystem::path& temp, const std::filesystem::path& final);

/// Tries out whether files can be made in `folder`, or, when it doesn't exist, whether it could be created.
/// Leaves nothing behind. Errors: MachineError.
void check_writable(const std::filesystem::path& folder);

/// The error of a failed system call: "cannot <action> <path>: <errno in words>" and what to do about it.
MachineError machine_error(std::string_view action, const std::filesystem::path& path, int error);

}  // namespace trainer
