#include "engine/config/files.h"

#include <cstdlib>
#include <filesystem>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string accelerate_default_file() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return home + "/accelerate/default_config.yaml";
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/huggingface/accelerate/default_config.yaml";
}

}  // namespace

Node read_yaml_file(const std::string& file, Problems& problems) {
  std::string text;
  try {
    text = read_file(file, kMaxBytes);
  } catch (const InputError& error) {  // a configuration: the user typed its name
    throw ConfigError("{}", error.what());
  }
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
