// Which files a configuration means.
#pragma once

#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::data {

/// The files behind files, folders and globs; those of a folder or glob in the order of their names. From a folder come
/// the files that aren't hidden and, with format auto, have the ending of a format.
/// Errors: InputError that says what is there instead.
std::vector<std::string> expand_paths(const config::DataSource& source);

/// The format of a file: the configured one, or by the ending of its name. Errors: InputError for an unknown ending.
config::DataFormat format_of(const std::string& path, config::DataFormat configured);

}  // namespace trainer::data
