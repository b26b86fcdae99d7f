// Object stores that are mounted as a file system.
#pragma once

#include <filesystem>
#include <istream>
#include <string>

namespace trainer {

/// Whether `path`, which exists, is in an object store (S3, GCS, Azure) that a known program shows as files. False if
/// that can't be found out.
bool is_in_object_store(const std::filesystem::path& path);

/// The same for the mount of `device` ("0:59") in `mounts`, the lines of /proc/self/mountinfo.
bool is_object_store(std::istream& mounts, const std::string& device);

}  // namespace trainer
