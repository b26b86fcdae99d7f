#include "data/readers/dataset_folder.h"

#include <glob.h>

#include <algorithm>
#include <map>
#include <set>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "data/readers/dataset_card.h"
#include "data/readers/paths.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/document/document.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::string>;
using config::Node;

constexpr int64_t kMostOfFile = int64_t{1} << 20;

bool is_present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The visible data files directly in `folder`, by name.
Files data_files(const fs::path& folder) {
  Files files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && has_known_ending(name)) files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

nlohmann::json json_of(const fs::path& file) {
  auto json = bounded_json_or_none(read_file(file, kMostOfFile));
  if (!json.is_object()) throw InputError("{}: not a JSON object.", file.string());
  return json;
}

/// A name in a dataset's own description, which must not lead out of its folder.
fs::path inside(const fs::path& folder, const std::string& name, const fs::path& description) {
  const fs::path path(name);
  if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
    throw InputError("{}: names the file {}, which is outside of the dataset's folder.", description.string(), name);
  return folder / path;
}

[[noreturn]] void fail_split(const fs::path& folder, const std::string& split, const std::set<std::string>& splits) {
  throw InputError("{}: the dataset has no split '{}'; it has: {}.\nGive the files to read instead of the folder.",
                   folder.string(), split, fmt::join(splits, ", "));
}

/// `Dataset.save_to_disk`.
Files saved_split(const fs::path& folder) {
  const fs::path state = folder / "state.json";
  const auto json = json_of(state);
  const auto listed = json.find("_data_files");
  Files files;
  if (listed != json.end() && listed->is_array())
    for (const auto& file : *listed)
      if (file.is_object() && file.contains("filename") && file["filename"].is_string())
        files.push_back(inside(folder, file["filename"].get<std::string>(), state).string());
  if (files.empty()) throw InputError("{}: lists no data files.", state.string());
  return files;
}

/// `DatasetDict.save_to_disk`.
Files saved_dict(const fs::path& folder, const std::string& split) {
  const fs::path listing = folder / "dataset_dict.json";
  const auto json = json_of(listing);
  std::set<std::string> splits;
  if (const auto found = json.find("splits"); found != json.end() && found->is_array())
    for (const auto& name : *found)
      if (name.is_string()) splits.insert(name.get<std::string>());
  if (!splits.contains(split)) fail_split(folder, split, splits);
  return saved_split(inside(folder, split, listing));
}

Files texts_of(const Node& node) {
  Files texts;
  if (node.is_scalar()) texts.push_back(node.text);
  for (const Node& item : node.items)
    if (item.is_scalar()) texts.push_back(item.text);
  return texts;
}

using Splits = std::map<std::string, Files>;  // patterns of files

/// `data_files` of a configuration: a pattern or patterns, which are the training split, or a list of splits.
Splits splits_of(const Node& data_files) {
  Splits splits;
  if (Files patterns = texts_of(data_files); !patterns.empty()) splits["train"] = std::move(patterns);
  for (const Node& item : data_files.items)
    if (const Node* name = item.find("split"), *path = item.find("path"); name != nullptr && path != nullptr)
      splits[name->text] = texts_of(*path);
  for (const config::Member& member : data_files.members) splits[member.key] = texts_of(member.value);
  return splits;
}

Files files_of_patterns(const fs::path& folder, const Files& patterns) {
  Files files;
  for (const std::string& pattern : patterns) {
    glob_t found{};
    Files matches;
    if (glob(inside(folder, pattern, folder / "README.md").c_str(), GLOB_NOESCAPE, nullptr, &found) == 0)
      matches.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    for (const std::string& match : matches) {  // `.*` matches `..`, too
      inside(folder, fs::path(match).lexically_relative(folder), folder / "README.md");
      files.push_back(match);
    }
  }
  if (files.empty())
    throw InputError("{}: README.md names the files {}, and none of them is there.\nIs the download complete?",
                     folder.string(), fmt::join(patterns, ", "));
  return files;
}

/// The split that a file's name begins with; "" for none of the usual names.
std::string split_of(const std::string& file) {
  static const std::map<std::string, std::string> kNames = {
      {"train", "train"},      {"training", "train"}, {"validation", "validation"},
      {"valid", "validation"}, {"val", "validation"}, {"dev", "validation"},
      {"test", "test"},        {"testing", "test"},   {"eval", "test"},
      {"evaluation", "test"}};
  const std::string name = fs::path(file).filename().string();
  const auto found = kNames.find(name.substr(0, name.find_first_of("-_.")));
  return found == kNames.end() ? "" : found->second;
}

Files files_by_name(const fs::path& folder, const Files& files, const std::string& split) {
  std::set<std::string> splits;
  for (const std::string& file : files) splits.insert(split_of(file));
  if (splits == std::set<std::string>{""}) splits = {"train"};  // no names: all of it is the training split
  Files of_split;
  for (const std::string& file : files)
    if (split_of(file) == split || splits.size() == 1) of_split.push_back(file);
  if (!splits.contains(split)) fail_split(folder, split, splits);
  return of_split;
}

bool is_snapshot(const fs::path& folder) {
  const fs::path normal = fs::path(folder / "").lexically_normal().parent_path();
  return normal.parent_path().filename() == "snapshots" &&
         normal.parent_path().parent_path().filename().string().starts_with("datasets--");
}

/// A dataset's repository, or a folder in its layout.
std::optional<Files> of_repository(const fs::path& folder, const std::string& split) {
  if (const fs::path readme = folder / "README.md"; is_present(readme)) {
    const Node matter = front_matter(readme);  // without one that can be read, the names of the files count
    if (const Node* configs = matter.find("configs"); configs != nullptr && !configs->items.empty())
      if (const Node* files = chosen_configuration(*configs, folder).find("data_files")) {
        const Splits splits = splits_of(*files);
        std::set<std::string> names;
        for (const auto& [name, patterns] : splits) names.insert(name);
        if (!splits.contains(split)) fail_split(folder, split, names);
        return files_of_patterns(folder, splits.at(split));
      }
  }
  Files here = data_files(folder);
  if (is_snapshot(folder) && !here.empty()) return files_by_name(folder, here, split);
  const Files below = here.empty() ? data_files(folder / "data") : Files();
  if (below.empty()) return std::nullopt;
  return files_by_name(folder, below, split);
}

}  // namespace

std::optional<Files> dataset_files(const fs::path& folder, const std::string& split) {
  if (is_present(folder / "state.json") && is_present(folder / "dataset_info.json")) return saved_split(folder);
  if (is_present(folder / "dataset_dict.json")) return saved_dict(folder, split);
  return of_repository(repository_of(folder), split);
}

}  // namespace trainer::data
