#include "engine/config/plan/files.h"

#include <cstdlib>
#include <filesystem>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/document/text.h"
#include "engine/config/pages/file_text.h"
#include "engine/config/plan/reader.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The folder that a variable names, which can begin with ~.
std::string folder(const char* name, const std::string& otherwise) {
  const std::string given = variable(name);
  return given.empty() ? otherwise : absolute_path(given, fs::current_path());
}

std::string accelerate_default_file() {
  const std::string cache = folder("XDG_CACHE_HOME", variable("HOME") + "/.cache");
  return folder("HF_HOME", cache + "/huggingface") + "/accelerate/default_config.yaml";
}

}  // namespace

Node read_document(const std::string& file, Problems& problems) {
  std::string text;
  try {
    text = read_file(file, kMaxBytes);
  } catch (const InputError& error) {  // a configuration: the user typed its name
    const std::string own = (std::filesystem::path(file) / "config.resolved.yaml").string();
    std::error_code ignored;
    const bool is_run = std::filesystem::is_regular_file(own, ignored);
    throw ConfigError("{}{}", error.what(), is_run ? " of a run; its configuration is " + own : "");
  }
  // A .yaml can contain JSON: `accelerate config default` writes such files, and YAML readers fail on tabs and on the
  // \u escapes of characters beyond the first 65536.
  text = utf8_text(text, file);
  if (file.ends_with(".json") || is_json_object(text)) return parse_json(text, file, problems);
  refuse_cut(text, file);
  return parse_yaml(text, file, problems);
}

std::string own_default_file() {
  const std::string named = variable("TRAINER_CONFIG");
  return named.empty() ? variable("HOME") + "/.config/trainer/default_config.yaml" : named;
}

DefaultFile find_default_file() {
  const std::string own = own_default_file();
  if (!variable("TRAINER_CONFIG").empty()) return {own, fmt::format("using {} ($TRAINER_CONFIG)", own)};
  if (fs::exists(own)) return {own, fmt::format("using {}", own)};
  const std::string accelerate = accelerate_default_file();
  if (fs::exists(accelerate)) return {accelerate, fmt::format("using Accelerate's file {}", accelerate)};
  return {"", ""};
}

}  // namespace trainer::config
