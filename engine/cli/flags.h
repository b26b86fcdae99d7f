// Command-line flags, on CLI11.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/cli/command.h"
#include "engine/cli/launch_flags.h"
#include "engine/config/resolve.h"

namespace trainer::cli {

/// A flag as it is declared: with _ for each - of its name.
std::string with_underscores(const std::string& argument);

/// Parses `arguments`; flags may be spelled with - or _, and truths may be followed by their value. False: help was
/// asked for and printed.
/// Errors: ConfigError, with the nearest flag for an unknown one.
bool parse(CLI::App& app, const Arguments& arguments);

/// The flags of every command that needs a plan: `[JOB.yaml] --config_file --set`, and those of launch_flags.h.
class PlanFlags {
 public:
  explicit PlanFlags(CLI::App& app);

  /// `parse` for these flags: those that stand alone may, and a script is told from a configuration.
  bool parse(const Arguments& arguments);

  /// The plan they ask for, `to_run` or to be looked at. Says on standard error which file is used when none was named.
  /// Errors: those of resolve_plan.
  config::Plan resolve(bool to_run = true) const;
  /// For all machines of the run to come together.
  std::chrono::seconds join_timeout() const { return of_flags().join_timeout; }
  /// For more of them to come, where a range says that there are enough.
  std::chrono::seconds last_call() const { return of_flags().last_call; }

  /// The positional arguments. The one that stays when `resolve` is called is JOB.yaml.
  std::vector<std::string>& words() { return words_; }
  /// True when a file was named.
  bool names_file() const { return !config_file_.empty() || !words_.empty(); }

 private:
  Arguments with_values(const Arguments& arguments) const;
  Asked of_flags() const;
  Asked asked() const;

  CLI::App& app_;
  std::string config_file_;
  std::vector<std::string> words_, sets_;
  std::map<std::string, std::vector<std::string>> values_;  // by flag; as long as the App lives
};

}  // namespace trainer::cli
