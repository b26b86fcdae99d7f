// Which files a configuration means.
#pragma once

#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::data {

struct SourceFile {
  std::string path;
  config::DataFormat format;  // never auto
};

/// What one entry of a source's `path` stands for.
struct SourceEntry {
  std::string path;  // as it is configured
  std::vector<SourceFile> files;
};

/// The files behind files, folders and globs, entry by entry; those of a folder or glob in the order of their names.
/// From a folder come the files that aren't hidden and, with format auto, have the ending of a format, which must be
/// the same for all.
/// Errors: InputError that says what is there instead, or which formats are mixed.
std::vector<SourceEntry> find_sources(const config::DataSource& source);

/// The paths of all files, in their order. Errors: as find_sources.
std::vector<std::string> expand_paths(const config::DataSource& source);

/// The format of a file: the configured one, or by the ending of its name, before which .gz and .zst don't count.
/// Errors: InputError for an unknown ending.
config::DataFormat format_of(const std::string& path, config::DataFormat configured);

/// True when the ending of its name tells the format of a file.
bool has_known_ending(const std::string& path);

}  // namespace trainer::data
