#include "data/readers/class_label.h"

#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "data/readers/dataset_card.h"
#include "data/readers/paths.h"
#include "data/readers/readers.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using config::Node;
using Json = nlohmann::json;
using Names = std::vector<std::string>;

constexpr int64_t kMostOfDescription = int64_t{1} << 20;

/// Nothing if two classes have the same name.
Names if_distinct(Names names) {
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? std::move(names) : Names();
}

/// The `names` of a class_label: a list, or a map from numbers.
Names names_in(const Node& names) {
  Names all;
  for (const Node& name : names.items) all.push_back(name.text);
  for (size_t i = 0; i < names.members.size(); ++i) {
    const Node* const name = names.find(std::to_string(i));
    if (name == nullptr) return {};
    all.push_back(name->text);
  }
  return if_distinct(std::move(all));
}

/// `features` of the front matter: a list of columns.
Names names_in_features(const Node& features, const std::string& column) {
  for (const Node& feature : features.items) {
    const Node *name = feature.find("name"), *type = feature.find("dtype");
    if (name == nullptr || name->text != column || type == nullptr) continue;
    const Node* const label = type->find("class_label");
    const Node* const names = label != nullptr ? label->find("names") : nullptr;
    return names != nullptr ? names_in(*names) : Names();
  }
  return {};
}

/// `features` in JSON: an object with a member for each column.
Names names_in_features(const Json& features, const std::string& column) {
  const auto feature = features.find(column);
  if (!features.is_object() || feature == features.end() || !feature->is_object()) return {};
  const auto type = feature->find("_type"), names = feature->find("names");
  if (type == feature->end() || *type != "ClassLabel" || names == feature->end() || !names->is_array()) return {};
  Names all;
  for (const Json& name : *names) {
    if (!name.is_string()) return {};
    all.push_back(name.get<std::string>());
  }
  return if_distinct(std::move(all));
}

/// The configuration that is read; "" if nothing tells.
std::string configuration_of(const Node& matter, const fs::path& folder) {
  const Node* const configs = matter.find("configs");
  if (configs == nullptr || configs->items.empty()) return "";
  try {
    const Node* const name = chosen_configuration(*configs, folder).find("config_name");
    return name != nullptr ? name->text : "";
  } catch (const InputError&) {  // reported where the files are looked for
    return "";
  }
}

Names names_in_card(const Node& matter, const std::string& configuration, const std::string& column) {
  const Node* const info = matter.find("dataset_info");
  if (info == nullptr) return {};
  for (const Node& item : info->items) {
    const Node *name = item.find("config_name"), *features = item.find("features");
    const std::string its_name = name != nullptr ? name->text : "default";
    const bool is_read = info->items.size() == 1 || its_name == (configuration.empty() ? "default" : configuration);
    if (is_read && features != nullptr) return names_in_features(*features, column);
  }
  const Node* const features = info->find("features");
  return features != nullptr ? names_in_features(*features, column) : Names();
}

/// An object; null if the file is not one of JSON, or too large for a description.
Json json_in(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  try {
    return bounded_json_or_none(read_file(file, kMostOfDescription));
  } catch (const Error&) {
    return {};
  }
}

/// Of `json`, an object with the member "features".
Names names_in_info(const Json& json, const std::string& column) {
  return json.is_object() && json.contains("features") ? names_in_features(json["features"], column) : Names();
}

Names names_in_infos(const Json& infos, const std::string& configuration, const std::string& column) {
  if (!infos.is_object() || infos.empty()) return {};
  const auto found = infos.size() == 1 ? infos.begin() : infos.find(configuration.empty() ? "default" : configuration);
  return found != infos.end() ? names_in_info(*found, column) : Names();
}

}  // namespace

Names class_names_of_folder(const fs::path& folder, const std::string& column) {
  const fs::path repository = repository_of(folder);
  const Node matter = front_matter(repository / "README.md");
  const std::string configuration = configuration_of(matter, repository);
  Names names = names_in_card(matter, configuration, column);
  if (names.empty()) names = names_in_infos(json_in(repository / "dataset_infos.json"), configuration, column);
  if (names.empty()) names = names_in_info(json_in(repository / "dataset_info.json"), column);
  return names;
}

Names declared_class_names(const config::DataSource& source, const std::string& column) {
  std::optional<Names> agreed;
  for (const SourceEntry& entry : find_sources(source)) {
    std::error_code ignored;
    Names names = fs::is_directory(entry.path, ignored) ? class_names_of_folder(entry.path, column) : Names();
    const SourceFile& first = entry.files.front();
    if (names.empty() && first.format == config::DataFormat::kParquet) names = class_names_of_table(first.path, column);
    if (agreed && *agreed != names) return {};
    agreed = std::move(names);
  }
  return agreed.value_or(Names());
}

Names class_names_of_table(const std::string& path, const std::string& column) {
  const Json json = bounded_json_or_none(table_reader(path, nullptr)->declared_features());
  return json.is_object() && json.contains("info") ? names_in_info(json["info"], column) : Names();
}

}  // namespace trainer::data
