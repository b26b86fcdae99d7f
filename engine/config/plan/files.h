// Finds and reads configuration files.
#pragma once

#include <string>

#include "engine/config/document/document.h"
#include "engine/config/document/problems.h"

namespace trainer::config {

/// Reads JSON if the name ends in .json or the text is a JSON object, otherwise YAML.
/// Errors: ConfigError if the file can't be read, is not UTF-8 text, or is neither JSON nor YAML.
Node read_document(const std::string& file, Problems& problems);

/// The file that is used by default: $TRAINER_CONFIG, else our default file if it exists, else Accelerate's.
struct DefaultFile {
  std::string path;  // "": none
  std::string note;  // the line about it on the screen
};
DefaultFile find_default_file();

/// ~/.config/trainer/default_config.yaml, or $TRAINER_CONFIG: what a bare `trainer config` writes.
std::string own_default_file();

}  // namespace trainer::config
