// The Plan: what the configuration means once defaults, files, environment and flags are resolved.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::config {

/// What became of something in the user's files.
struct Note {
  std::string key;     // "deepspeed_config.zero_stage"
  std::string value;   // as written
  std::string origin;  // "ds.yaml:3:15"
  std::string text;    // the option it set and its value, or the reason why it has no effect
};

/// Every option with its final value, and where that value came from. Nothing below `config` knows YAML dialects.
/// All paths are absolute.
struct Plan {
  Config config;
  std::map<std::string, std::string> origins;  // "training.learning_rate" -> "job.yaml:12:18" | "flag" | "default" ...
  std::vector<std::string> warnings;
  std::vector<Note> translated;      // keys of other programs that set options of ours
  std::vector<Note> without_effect;  // keys that are accepted and change nothing
  std::string source;                // the configuration file, for messages

  int64_t world_size() const { return config.num_processes; }
  /// Ranks that see different samples; the others share the work on the same ones.
  int64_t data_ranks() const;
};

/// `message` behind the place of the option that it begins with ("fsdp_config.fsdp_auto_wrap_policy: …"), where a file,
/// a flag or the environment set that.
std::string located(const Plan& plan, const std::string& message);

/// The plan as one YAML document that `parse_plan` reads back: how the launcher hands it to its ranks.
std::string to_text(const Plan& plan);
Plan parse_plan(const std::string& text);

/// What a launch says before it begins: the warnings, and a line for each source with keys that have no effect.
std::vector<std::string> spoken_warnings(const Plan& plan);

/// The configuration with the origin of each value behind it: `config.resolved.yaml`, and what `trainer explain`
/// prints.
std::string resolved_text(const Plan& plan);

}  // namespace trainer::config
