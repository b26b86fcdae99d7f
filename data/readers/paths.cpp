#include "data/readers/paths.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using config::DataFormat;

std::optional<DataFormat> format_by_ending(const fs::path& path) {
  static const std::map<std::string, DataFormat> kFormats = {
      {".csv", DataFormat::kCsv},     {".tsv", DataFormat::kTsv},      {".json", DataFormat::kJson},
      {".jsonl", DataFormat::kJsonl}, {".ndjson", DataFormat::kJsonl}, {".txt", DataFormat::kText},
  };
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  auto found = kFormats.find(ending);
  return found == kFormats.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void fail_missing(const std::string& path) {
  fs::path parent = fs::path(path).parent_path();
  if (parent.empty()) parent = ".";
  if (!fs::is_directory(parent)) throw InputError("{}: there is no folder {}.", path, parent.string());
  throw InputError("{}: no such file or folder{}.", path,
                   did_you_mean(fs::path(path).filename().string(), names_in(parent)));
}

std::vector<std::string> files_of_folder(const fs::path& folder, DataFormat format) {
  std::vector<std::string> files;
  for (const std::string& name : names_in(folder)) {
    fs::path path = folder / name;
    bool wanted = !name.starts_with('.') && (format != DataFormat::kAuto || format_by_ending(path));
    std::error_code error;
    if (wanted && fs::is_regular_file(path, error)) files.push_back(path.string());
  }
  if (files.empty())
    throw InputError("{}: the folder has no data files (.csv .tsv .json .jsonl .txt).", folder.string());
  return files;
}

std::vector<std::string> files_of_glob(const std::string& pattern) {
  glob_t found{};
  int status = glob(pattern.c_str(), 0, nullptr, &found);  // sorted by name
  std::vector<std::string> files;
  for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) {
    std::error_code error;
    if (fs::is_regular_file(found.gl_pathv[i], error)) files.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  if (files.empty()) throw InputError("{}: no file matches this pattern.", pattern);
  return files;
}

}  // namespace

std::vector<std::string> expand_paths(const config::DataSource& source) {
  std::vector<std::string> files;
  for (const std::string& path : source.path) {
    std::error_code error;
    std::vector<std::string> found;
    if (fs::is_directory(path, error)) {
      found = files_of_folder(path, source.format);
    } else if (fs::exists(path, error)) {
      found = {path};
    } else if (path.find_first_of("*?[") != std::string::npos) {
      found = files_of_glob(path);
    } else {
      fail_missing(path);
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

DataFormat format_of(const std::string& path, DataFormat configured) {
  if (configured != DataFormat::kAuto) return configured;
  if (auto format = format_by_ending(path)) return *format;
  throw InputError(
      "{}: the ending of its name tells no format.\nSet `format` to delimited, csv, tsv, json, jsonl or text.", path);
}

}  // namespace trainer::data
