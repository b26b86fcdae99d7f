#include "engine/config/plan/adapter_folder.h"

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/adapters/read.h"
#include "engine/config/document/problems.h"

namespace trainer::config {
namespace {

constexpr int64_t kMaxFile = int64_t{1} << 20;
const AdapterKind& kind_in(const nlohmann::json& file, const std::string& where) {
  const std::string name = file.value("peft_type", "");
  const AdapterKind* kind = find_adapter_kind(name);
  if (kind == nullptr)
    throw InputError("{}: peft_type is '{}'; this version can continue training {} adapters.", where, name,
                     adapter_kinds_that([](const AdapterKind& known) { return known.read != nullptr; }, "and"));
  if (kind->read == nullptr) refuse_network_output(where, name);
  return *kind;
}

LoraConfig read_options(const LoraConfig& given, const nlohmann::json& file, const std::string& where) {
  const AdapterKind& kind = kind_in(file, where);
  LoraConfig options = kind.defaults;
  options.path = given.path;
  options.inference_mode = given.inference_mode;
  options.task_type = given.task_type;
  options.target_modules = to_names(file.value("target_modules", nlohmann::json()));
  options.exclude_modules = to_names(file.value("exclude_modules", nlohmann::json()));
  options.modules_to_save = to_list<std::string>(file, "modules_to_save");
  kind.read(file, where, options);
  return options;
}

/// adapter_config.json without nulls.
nlohmann::json read_json(const std::string& folder) {
  const std::string where = adapter_config_file(folder);
  if (!std::filesystem::exists(where))
    throw InputError(
        "{} {}.\n  It must be an adapter folder as PEFT saves it: adapter_config.json and "
        "adapter_model.safetensors.",
        folder, std::filesystem::exists(folder) ? "has no adapter_config.json" : "does not exist");
  nlohmann::json file = bounded_json_or_none(read_file(where, kMaxFile));
  if (!file.is_object()) throw InputError("{}: not a JSON object.", where);
  for (auto at = file.begin(); at != file.end();) at = at->is_null() ? file.erase(at) : std::next(at);
  return file;
}

}  // namespace

std::string adapter_config_file(const std::string& folder) {
  return folder + "/adapter_config.json";
}

LoraConfig read_adapter_config(const LoraConfig& given) {
  const std::string where = adapter_config_file(given.path);
  const nlohmann::json file = read_json(given.path);
  try {
    return read_options(given, file, where);
  } catch (const nlohmann::json::exception& error) {
    throw InputError("{}: a value has the wrong type: {}", where, error.what());
  }
}

AdapterBase read_adapter_base(const std::string& folder) {
  const nlohmann::json file = read_json(folder);
  const auto text = [&](const char* key) {
    return file.contains(key) && file[key].is_string() ? file[key].get<std::string>() : "";
  };
  return {text("base_model_name_or_path"), text("task_type")};
}

std::map<std::string, Mark> adapter_config_marks(const std::string& folder) {
  std::map<std::string, Mark> marks;
  try {
    Problems ignored;
    const std::string file = adapter_config_file(folder);
    for (const Member& member : parse_json(read_file(file, kMaxFile), file, ignored).members)
      marks[member.key] = member.value.mark;
  } catch (const Error&) {  // larger than a configuration can be: do without the positions
  }
  return marks;
}

}  // namespace trainer::config
