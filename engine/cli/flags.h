// Command-line flags, on CLI11.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/cli/command.h"
#include "engine/cli/launch_flags.h"
#include "engine/config/plan/resolve.h"

namespace trainer::cli {

/// A flag as it is declared, with _ for each - in its name.
std::string with_underscores(const std::string& argument);

/// Parses `arguments`; flags may be spelled with - or _, and Boolean flags may be followed by their value. False when
/// help was requested and printed.
/// Errors: ConfigError, which suggests the nearest flag for an unknown one.
bool parse(CLI::App& app, const Arguments& arguments);

/// Flags that several commands have, in all their spellings.
inline constexpr const char* kModelFlag = "--model,--model_name_or_path";
inline constexpr const char* kBaseFlag = "--base,--base_model,--model,--model_name_or_path";  // of an adapter
inline constexpr const char* kAdapterFlag = "--adapter,--adapter_name_or_path";
inline constexpr const char* kDataFlag = "--data,--input";
inline constexpr const char* kCpuFlag = "--cpu,--use_cpu";

/// The flags of every command that needs a plan: `[JOB.yaml] --config_file --set`, and those of launch_flags.h.
class PlanFlags {
 public:
  explicit PlanFlags(CLI::App& app);

  /// `parse` for these flags: Boolean flags need no value, and a Python script is refused.
  bool parse(const Arguments& arguments);

  /// As --set: a flag of the command is another name for an option.
  void set(const std::string& option, const std::string& value) { sets_.push_back(option + "=" + value); }

  /// The plan that the flags describe, `to_run` or for inspection only. Logs the default file when none was named.
  /// Errors: those of resolve_plan.
  config::Plan resolve(bool to_run = true) const;
  /// The same for a run that a scheduler starts, which sets the address of machine 0.
  config::Plan resolve_for_scheduler() const;
  /// The same for `trainer test`, which needs neither a model nor data.
  config::Plan resolve_for_test() const;
  /// Time for all machines of the run to join.
  std::chrono::seconds join_timeout() const { return of_flags().join_timeout; }
  /// Time for more machines to join once a range has its minimum.
  std::chrono::seconds last_call() const { return of_flags().last_call; }

  /// The positional arguments. The one left when `resolve` is called is JOB.yaml.
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
  std::map<std::string, std::vector<std::string>> values_;  // by flag; must outlive the App
};

}  // namespace trainer::cli
