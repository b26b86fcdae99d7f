#include "engine/prepare/class_names.h"

#include <optional>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"
#include "engine/checkpoint/signature.h"

namespace trainer::prepare {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr int64_t kMaxConfig = int64_t{1} << 20;

/// The classes of a config.json's id2label, in the order of their numbers; empty when it has none.
Names names_in(const std::string& config_json) {
  const auto json = bounded_json_or_none(config_json);
  const auto found = json.is_object() ? json.find("id2label") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object()) return {};
  Names names;
  for (size_t i = 0; i < found->size(); ++i) {
    const auto name = found->find(std::to_string(i));
    if (name == found->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

Names names_in_folder(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  return fs::exists(file) ? names_in(read_file(file, kMaxConfig)) : Names();
}

bool names_checkpoint(const config::Config& config) {
  const std::string& choice = config.checkpoint.resume_from_checkpoint;
  return choice != "auto" && choice != "true" && choice != "false";
}

/// The checkpoints that the run may resume from, best first.
std::vector<fs::path> checkpoints_of(const config::Config& config) {
  const std::string& choice = config.checkpoint.resume_from_checkpoint;
  if (choice == "false") return {};
  if (names_checkpoint(config)) return {choice};
  std::vector<fs::path> folders;
  for (const checkpoint::Found& found : checkpoint::readable_checkpoints(config.output_dir))
    folders.insert(folders.begin(), found.folder);
  return folders;
}

std::optional<checkpoint::Contents> contents_of(const fs::path& folder, const std::optional<checkpoint::Trust>& trust) {
  try {
    if (trust) checkpoint::check_signature(folder, *trust);
    return checkpoint::read_contents(folder);
  } catch (const Error&) {
    return std::nullopt;  // loading skips it or reports the damage
  }
}

void check_configured(const Names& configured, const SettledClasses& settled) {
  if (configured.empty() || settled.checkpoint.empty() || configured == settled.names) return;
  throw ConfigError(
      "data.labels is {}, but {} was saved with the classes {}: the model's outputs are in that order.\n  List the "
      "classes as in the checkpoint, or start from scratch in another output_dir.",
      fmt::join(configured, ", "), settled.checkpoint.string(), fmt::join(settled.names, ", "));
}

}  // namespace

SettledClasses settled_classes(const config::Config& config) {
  SettledClasses settled;
  const auto trust = checkpoint::trust_in(config.checkpoint.trusted_key,
                                          names_checkpoint(config) ? fs::path() : fs::path(config.output_dir));
  for (const fs::path& folder : checkpoints_of(config)) {
    const auto contents = contents_of(folder, trust);
    if (!contents) continue;
    // Earlier versions recorded no classes and sorted all names as text; an adapter's checkpoint doesn't say it either.
    settled = {contents->classes, data::LabelOrder::kAsText, folder};
    if (settled.names.empty()) settled.names = names_in_folder(folder);
    break;
  }
  check_configured(config.data.labels, settled);
  if (!settled.names.empty()) return settled;
  const config::ModelConfig& model = config.model;
  return {model.path.empty() ? names_in(model.config) : names_in_folder(model.path), settled.order, {}};
}

}  // namespace trainer::prepare
