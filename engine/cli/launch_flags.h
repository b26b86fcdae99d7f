// Every flag of `trainer launch`: those that the option tables declare, and those of other launchers that have no key
// in the file.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "engine/config/plan/resolve.h"

namespace trainer::cli {

/// The section of the help that lists a flag.
enum class Group { kCommon, kAccelerate, kFsdp, kDeepspeed, kMegatron, kParallelism, kTorchrun };

/// The collected effects of all flags.
struct Asked {
  config::Sources sources;
  std::chrono::seconds join_timeout{600};  // for all machines to join
  std::chrono::seconds last_call{5};       // for more to join once there are enough

  void set(const std::string& path, const std::string& value, const std::string& flag);
  void refuse(const std::string& flag, const std::string& message, const char* rule = "");
};

struct LaunchFlag {
  enum class Support { kHonored, kNoEffect, kRefused };

  std::string name;  // "--num_processes"
  Group group = Group::kAccelerate;
  std::string help;   // for flags without effect and refused ones, the reason
  std::string value;  // its placeholder in the help: "N"; "" when the flag needs no value
  Support support = Support::kHonored;
  std::vector<std::string> others;  // aliases: "-t"
  /// Null: it sets the option `path` to its value.
  void (*act)(const std::string& value, const LaunchFlag& flag, Asked& asked) = nullptr;
  std::string path;
  std::vector<std::string> harmless;  // values that have no effect

  /// The flag needs no value; without one it is "true".
  bool is_truth() const { return value.empty(); }
};

/// The flags of options, and after them those without one. No name appears twice.
const std::vector<LaunchFlag>& launch_flags();

/// The flags of Accelerate's, torchrun's and DeepSpeed's launchers that have no key in the file.
std::vector<LaunchFlag> foreign_flags();

/// Adds a flag that was given to `asked`.
void ask(const LaunchFlag& flag, const std::string& value, Asked& asked);

/// Called once all flags are in: refuses flags that contradict each other.
void finish(Asked& asked);

/// The help of a command that takes these flags, grouped.
std::string launch_help(const CLI::App& app);

}  // namespace trainer::cli
