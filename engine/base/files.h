// Reads whole files, and publishes files atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/errors.h"

namespace trainer {

/// The content of a file. Errors: InputError when it is missing, unreadable, not a regular file, or longer than
/// `limit`.
std::string read_file(const std::filesystem::path& path, int64_t limit = int64_t{1} << 30);

/// The first line of a file in /proc or /sys; "" if it can't be read.
std::string first_line(const std::filesystem::path& path);

/// Writes `content` to the file `path` atomically: after a crash, either the old file or the new one exists.
/// Errors: MachineError; the old file is then untouched and no other file is left.
void publish_file(const std::filesystem::path& path, std::string_view content);

/// Gives the file a new inode, if it exists: a process that still has it open no longer writes to it. Returns whether
/// that succeeded.
bool renew_file(const std::filesystem::path& path);

/// Publishes the finished file `temp`, in the same folder, as `path`, as publish_file() does. Errors: MachineError.
void publish_written(const std::filesystem::path& temp, const std::filesystem::path& path);

/// Writes all of `content` to the open file `fd`; `path` is for the message. Errors: MachineError.
void write_all(int fd, std::string_view content, const std::filesystem::path& path);

/// The folder that `path` is in.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Waits until a file's content or a folder's entries are on disk. Errors: MachineError.
void sync_path(const std::filesystem::path& path);

/// Checks whether files can be created in `folder`, or, when it doesn't exist, whether it could be created.
/// Leaves nothing behind. Errors: MachineError.
void check_writable(const std::filesystem::path& folder);

/// The error of a failed system call: "cannot <action> <path>: <errno in words>" and what to do about it.
MachineError machine_error(std::string_view action, const std::filesystem::path& path, int error);

}  // namespace trainer
