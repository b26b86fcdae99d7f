// Resolves the data paths of a configuration to files.
#pragma once

#include <string>
#include <vector>

#include "engine/config/sections/data.h"

namespace trainer::data {

struct SourceFile {
  std::string path;
  config::DataFormat format;  // never auto
};

/// The files of one entry of a source's `path`.
struct SourceEntry {
  std::string path;  // as configured
  std::vector<SourceFile> files;
};

/// Expands files, folders and globs, entry by entry; the files of a folder or glob are sorted by name. A folder stands
/// for the training split of a dataset (dataset_files), or for its files that aren't hidden and, with format auto, have
/// the extension of a known format, which must be the same for all. Errors: InputError that names similar paths, or the
/// mixed formats.
std::vector<SourceEntry> find_sources(const config::DataSource& source);

/// The paths of all files, in order. Errors: as find_sources.
std::vector<std::string> expand_paths(const config::DataSource& source);

/// The format of a file: the configured one, or the one of its extension, ignoring .gz and .zst.
/// Errors: InputError for an unknown extension.
config::DataFormat format_of(const std::string& path, config::DataFormat configured);

/// True when the file's extension determines its format.
bool has_known_ending(const std::string& path);

}  // namespace trainer::data
