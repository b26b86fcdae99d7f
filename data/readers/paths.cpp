#include "data/readers/paths.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "data/readers/dataset_folder.h"
#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/config/document/scalar.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/names.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using config::DataFormat;

std::string ending_of(const fs::path& path) {
  return config::lower(path.extension().string());
}

std::optional<DataFormat> format_by_ending(const fs::path& path) {
  static const std::map<std::string, DataFormat> kFormats = {
      {".csv", DataFormat::kCsv},         {".tsv", DataFormat::kTsv},       {".json", DataFormat::kJson},
      {".jsonl", DataFormat::kJsonl},     {".ndjson", DataFormat::kJsonl},  {".txt", DataFormat::kText},
      {".parquet", DataFormat::kParquet}, {".arrow", DataFormat::kParquet}, {".feather", DataFormat::kParquet},
  };
  std::string ending = ending_of(path);
  if (ending == ".gz" || ending == ".zst" || ending == ".zstd") ending = ending_of(path.stem());
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

[[noreturn]] void fail_link(const fs::path& path) {
  std::error_code error;
  throw InputError("{}: a symbolic link to {}, which does not exist.", path.string(),
                   fs::read_symlink(path, error).string());
}

[[noreturn]] void fail_missing(const std::string& path) {
  std::error_code error;
  if (fs::is_symlink(path, error)) fail_link(path);
  fs::path parent = fs::path(path).parent_path();
  if (parent.empty()) parent = ".";
  if (!fs::is_directory(parent))
    throw InputError("{}: the folder {} does not exist.\n{}", path, parent.string(),
                     config::hub_hint(path, config::HubKind::kDataset));
  throw InputError("{}: no such file or folder{}.", path,
                   did_you_mean(fs::path(path).filename().string(), names_in(parent)));
}

/// True for a file and false for a folder; anything else is an error instead of being skipped silently.
bool is_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return false;
  if (fs::is_regular_file(status)) return true;
  if (fs::is_symlink(path, error)) fail_link(path);
  throw InputError("{}: not a regular file. Move it away, or list the files to read.", path.string());
}

/// Rejects a file that is listed under two names: its records would count twice.
void expect_different(const std::vector<std::string>& files) {
  std::map<std::pair<dev_t, ino_t>, std::string> seen;
  for (const std::string& file : files) {
    struct stat about {};
    if (stat(file.c_str(), &about) != 0) continue;  // opening it reports the error
    const auto [other, is_new] = seen.try_emplace({about.st_dev, about.st_ino}, file);
    if (!is_new) {
      throw InputError("{}: the same file as {}: its records would count twice. List each file to read once.", file,
                       other->second);
    }
  }
}

void expect_one_format(const fs::path& folder, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    DataFormat first = *format_by_ending(files[0]), format = *format_by_ending(file);
    if (format == first) continue;
    throw InputError(
        "{}: the folder has files of two formats, such as {} ({}) and {} ({}).\nGive a glob such as {}/*{}, or a "
        "list of both.",
        folder.string(), fs::path(files[0]).filename().string(), config::name_of(first),
        fs::path(file).filename().string(), config::name_of(format), folder.string(), ending_of(files[0]));
  }
}

std::vector<std::string> files_of_folder(const fs::path& folder, DataFormat format) {
  if (auto of_dataset = dataset_files(folder, "train")) return *of_dataset;
  std::vector<std::string> files;
  for (const std::string& name : names_in(folder)) {
    fs::path path = folder / name;
    bool wanted = !name.starts_with('.') && (format != DataFormat::kAuto || format_by_ending(path));
    if (wanted && is_file(path)) files.push_back(path.string());
  }
  if (files.empty()) {
    throw InputError(
        "{}: the folder has no data files (.csv .tsv .json .jsonl .txt, also with .gz or .zst, .parquet .arrow).",
        folder.string());
  }
  if (format == DataFormat::kAuto) expect_one_format(folder, files);
  expect_different(files);
  return files;
}

std::vector<std::string> files_of_glob(const std::string& pattern) {
  glob_t found{};
  int status = glob(pattern.c_str(), 0, nullptr, &found);  // sorted by name
  std::vector<std::string> files;
  if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::erase_if(files, [](const std::string& path) { return !is_file(path); });
  if (files.empty()) throw InputError("{}: no file matches this pattern.", pattern);
  expect_different(files);
  return files;
}

std::vector<std::string> files_of(const std::string& path, DataFormat format) {
  std::error_code error;
  if (fs::is_directory(path, error)) return files_of_folder(path, format);
  if (fs::exists(path, error)) return {path};
  if (error) throw InputError("{}: {}", path, error.message());  // such as no permission
  if (path.find_first_of("*?[") != std::string::npos) return files_of_glob(path);
  fail_missing(path);
}

}  // namespace

std::vector<SourceEntry> find_sources(const config::DataSource& source) {
  std::vector<SourceEntry> entries;
  for (const std::string& path : source.path) {
    SourceEntry entry{path};
    for (const std::string& file : files_of(path, source.format)) {
      entry.files.push_back({file, format_of(file, source.format)});
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::string> expand_paths(const config::DataSource& source) {
  std::vector<std::string> files;
  for (const SourceEntry& entry : find_sources(source)) {
    for (const SourceFile& file : entry.files) files.push_back(file.path);
  }
  return files;
}

DataFormat format_of(const std::string& path, DataFormat configured) {
  if (configured != DataFormat::kAuto) return configured;
  if (auto format = format_by_ending(path)) return *format;
  throw InputError("{}: unknown file extension.\nSet `format` to delimited, csv, tsv, json, jsonl, text or parquet.",
                   path);
}

bool has_known_ending(const std::string& path) {
  return format_by_ending(path).has_value();
}

}  // namespace trainer::data
