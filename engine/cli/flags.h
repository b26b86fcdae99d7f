// Command-line flags, on CLI11.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/cli/command.h"
#include "engine/config/resolve.h"

namespace trainer::cli {

/// Parses `arguments`; flags may be spelled with - or _. False: help was asked for and printed.
/// Errors: ConfigError, with the nearest flag for an unknown one.
bool parse(CLI::App& app, const Arguments& arguments);

/// The flags of every command that needs a plan: `[JOB.yaml] --config_file --set`, and one for each option of
/// Accelerate's that has a meaning here.
class PlanFlags {
 public:
  explicit PlanFlags(CLI::App& app);

  /// The plan they ask for. Says on standard error which file is used when none was named, and the plan's warnings.
  config::Plan resolve() const;

 private:
  void add_option_flags(CLI::App& app);
  config::Sources sources() const;

  std::string config_file_, job_file_;
  bool cpu_ = false, use_fsdp_ = false;
  std::vector<std::string> sets_;
  std::map<std::string, std::string> values_;  // by option path; as long as the App lives
  CLI::App& app_;
};

}  // namespace trainer::cli
