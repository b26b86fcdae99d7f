// Every flag of `trainer launch`: those that the option tables declare, and those of other launchers that are no key of
// the file.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "engine/config/resolve.h"

namespace trainer::cli {

/// Where a flag stands in the help.
enum class Group { kCommon, kAccelerate, kFsdp, kDeepspeed, kMegatron, kParallelism, kTorchrun };

/// What flags ask for, collected.
struct Asked {
  config::Sources sources;
  std::chrono::seconds join_timeout{600};  // for all machines to come together
  std::chrono::seconds last_call{5};       // for more to come once there are enough

  void set(const std::string& path, const std::string& value, const std::string& flag);
  void refuse(const std::string& flag, const std::string& message, const char* rule = "");
};

struct LaunchFlag {
  enum class Fate { kHonoured, kNoEffect, kRefused };

  std::string name;  // "--num_processes"
  Group group = Group::kAccelerate;
  std::string help;   // honoured ones; else the reason
  std::string value;  // what stands behind it, in the help: "N"; "" where it may stand alone
  Fate fate = Fate::kHonoured;
  std::vector<std::string> others;  // further spellings: "-t"
  /// Null: it sets the option `path` to its value.
  void (*act)(const std::string& value, const LaunchFlag& flag, Asked& asked) = nullptr;
  std::string path;
  std::vector<std::string> harmless;  // values that ask for nothing

  /// It needs no value; "true" is meant then.
  bool is_truth() const { return value.empty(); }
};

/// The flags of options, and after them those without one. No name appears twice.
const std::vector<LaunchFlag>& launch_flags();

/// The flags of Accelerate's, torchrun's and DeepSpeed's launchers that are no key of the file.
std::vector<LaunchFlag> foreign_flags();

/// Puts one flag that was given into `asked`.
void ask(const LaunchFlag& flag, const std::string& value, Asked& asked);

/// What can be said when all flags are in: flags that contradict each other.
void finish(Asked& asked);

/// The help of a command that takes these flags, grouped.
std::string launch_help(const CLI::App& app);

}  // namespace trainer::cli
