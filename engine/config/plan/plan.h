// The Plan: the configuration after defaults, files, environment and flags are resolved.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::config {

/// How a key in the user's files was interpreted.
struct Note {
  std::string key;       // "deepspeed_config.zero_stage"
  std::string value;     // as written
  std::string origin;    // "ds.yaml:3:15"
  std::string text;      // the option it set and its value, or the reason why it has no effect
  std::string option{};  // the option it set: "fsdp_config.fsdp_sharding_strategy"; "" for a key without effect
};

/// The note that `key` set `option` to `set_to`, and why, if it isn't obvious.
Note translated_note(const std::string& key, const std::string& value, const std::string& origin,
                     const std::string& option, const std::string& set_to, const std::string& reason = "");

/// Every option with its final value and the origin of that value. Code that uses a plan doesn't depend on YAML
/// dialects. All paths are absolute.
struct Plan {
  Config config;
  std::map<std::string, std::string> origins;  // "training.learning_rate" -> "job.yaml:12:18" | "flag" | "default" ...
  std::vector<std::string> warnings;
  std::vector<Note> translated;      // keys of other programs that set our options
  std::vector<Note> without_effect;  // keys that are accepted and have no effect
  std::string source;                // the configuration file, for messages

  int64_t world_size() const { return config.num_processes; }
  /// The number of ranks that process different samples (data-parallel ranks).
  int64_t data_ranks() const;
};

/// `message` with the origin of the option that it begins with ("fsdp_config.fsdp_auto_wrap_policy: …") prepended, if a
/// file, a flag or the environment set the option.
std::string located(const Plan& plan, const std::string& message);

/// The plan as one YAML document that `parse_plan` reads back; the launcher passes it to its ranks.
std::string to_text(const Plan& plan);
Plan parse_plan(const std::string& text);

/// What a launch prints before it begins: the warnings, and one line for each source that has keys without effect.
std::vector<std::string> launch_warnings(const Plan& plan);

/// The configuration with the origin of each value: `config.resolved.yaml`. Options without effect in this run are left
/// out: each would draw a warning when the file is read back.
std::string resolved_text(const Plan& plan);

/// The same with every option: the output of `trainer explain`.
std::string explained_text(const Plan& plan);

}  // namespace trainer::config
