#include "data/readers/dataset_card.h"

#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/document/problems.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using config::Node;

constexpr int64_t kMostOfCard = int64_t{1} << 20;

bool is_on_disk(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The snapshot of a folder datasets--NAME in the Hub's cache that refs/main names, or the only one.
fs::path snapshot_of(const fs::path& cached) {
  std::error_code error;
  if (is_on_disk(cached / "refs" / "main")) {
    const std::string commit = first_line(cached / "refs" / "main");
    if (!commit.empty() && commit.find('/') == std::string::npos && is_on_disk(cached / "snapshots" / commit))
      return cached / "snapshots" / commit;
  }
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(cached / "snapshots", error)) all.push_back(entry.path());
  if (all.size() == 1) return all[0];
  throw InputError("{}: has {} snapshots, and refs/main names none of them.\nGive the folder of one as `path`.",
                   cached.string(), all.size());
}

}  // namespace

Node front_matter(const fs::path& readme) {
  try {
    const std::string text = read_file(readme, kMostOfCard);
    const size_t begin = text.find('\n'), end = text.find("\n---", begin == std::string::npos ? 0 : begin);
    if (!text.starts_with("---") || end == std::string::npos) return {};
    config::Problems problems;
    return config::parse_yaml(text.substr(begin + 1, end - begin), readme.string(), problems);
  } catch (const Error&) {
    return {};
  }
}

const Node& chosen_configuration(const Node& configs, const fs::path& folder) {
  std::vector<std::string> names;
  for (const Node& item : configs.items) {
    const Node *name = item.find("config_name"), *is_default = item.find("default");
    if (configs.items.size() == 1 || (name != nullptr && name->text == "default") ||
        (is_default != nullptr && is_default->text == "true"))
      return item;
    names.push_back(name != nullptr ? name->text : "?");
  }
  throw InputError(
      "{0}: the dataset has the configurations {1}.\nGive the files of one as `path`, such as {0}/{2}/train-*.parquet.",
      folder.string(), fmt::join(names, ", "), names.empty() ? "NAME" : names.front());
}

fs::path repository_of(const fs::path& folder) {
  const bool cached = folder.lexically_normal().filename().string().starts_with("datasets--");
  return cached && is_on_disk(folder / "snapshots") ? snapshot_of(folder) : folder;
}

}  // namespace trainer::data
