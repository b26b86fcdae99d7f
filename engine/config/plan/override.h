// A single value from the command line or the environment.
#pragma once

#include <string>

#include "engine/config/plan/reader.h"

namespace trainer::config {

/// `path` is an option ("training.learning_rate"), `source` is what the user typed ("--set", "--num_processes"). A
/// value in brackets or quotes is read as YAML, unless the option is a text.
struct Override {
  std::string path;
  std::string value;
  std::string source;
};

/// Applies it to `draft`. Relative paths are resolved against the current folder.
void apply_override(const Override& given, Draft& draft);

/// A document `path: value`, every part of it marked with `mark`.
Node document_of(const std::string& path, Node value, const Mark& mark);

/// The flag of `trainer launch` that sets the option at `path`; "" if only --set does. Every key of Accelerate's file
/// has a flag; our options have one if their table declares it or they are at the top.
std::string launch_flag(const std::string& path, const Entry& entry);

}  // namespace trainer::config
