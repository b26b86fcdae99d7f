// The names that a dataset gives the classes of a column: ClassLabel of the library datasets. The files then hold the
// classes' numbers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/config/sections/data.h"

namespace trainer::data {

// All return the names in the order of their numbers, and nothing where none are declared.

/// Those of all paths of `source`, if they agree. Errors: as find_sources(), and table_reader() for tables.
std::vector<std::string> declared_class_names(const config::DataSource& source, const std::string& column);

/// As the folder of a dataset says: in `dataset_info` of its README.md, in dataset_infos.json, or in the dataset_info.json
/// of save_to_disk. With several configurations, those of the one that is read.
std::vector<std::string> class_names_of_folder(const std::filesystem::path& folder, const std::string& column);

/// As the schema of a Parquet or Arrow file says. Errors: as table_reader().
std::vector<std::string> class_names_of_table(const std::string& path, const std::string& column);

}  // namespace trainer::data
