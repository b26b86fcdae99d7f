#include "engine/cli/launch_flags.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/config/tables.h"

namespace trainer::cli {
namespace {

using config::Entry;
using config::Foreign;

Group group_of(const std::string& path) {
  const std::string section = path.substr(0, path.find('.'));
  if (section == "fsdp_config") return Group::kFsdp;
  if (section == "deepspeed_config") return Group::kDeepspeed;
  if (section == "megatron_lm_config") return Group::kMegatron;
  if (section == "parallelism_config") return Group::kParallelism;
  for (const char* common : {"num_processes", "mixed_precision", "num_cpu_threads_per_process", "seed", "output_dir",
                             "training.gradient_accumulation_steps", "training.max_grad_norm"}) {
    if (path == common) return Group::kCommon;
  }
  return Group::kAccelerate;
}

std::string value_words(const Entry& entry) {
  if (entry.path) return "FILE";
  switch (entry.kind.type) {
    case config::Type::kBoolean:
      return "";
    case config::Type::kInteger:
      return "N";
    case config::Type::kNumber:
      return "X";
    default:
      return entry.kind.choices.empty() ? "TEXT" : "NAME";
  }
}

std::string help_of(const Entry& entry) {
  if (!entry.reason.empty()) return entry.reason;
  if (!entry.no_effect.empty()) return entry.no_effect;
  if (entry.kind.choices.empty()) return entry.help;
  return fmt::format("{} ({})", entry.help, fmt::join(entry.kind.choices, ", "));
}

LaunchFlag::Support support_of(const Entry& entry) {
  if (entry.foreign == Foreign::kUnsupported) return LaunchFlag::Support::kRefused;
  const bool none = entry.foreign == Foreign::kNoEffect || !entry.no_effect.empty();
  return none ? LaunchFlag::Support::kNoEffect : LaunchFlag::Support::kHonored;
}

/// Aliases of the option that share its prefix: fsdp_backward_prefetch_policy, but not backward_prefetch.
std::vector<std::string> spellings(const Entry& entry) {
  const std::string prefix = entry.name.substr(0, entry.name.find('_') + 1);
  std::vector<std::string> flags;
  for (const std::string& alias : entry.aliases) {
    if (!prefix.empty() && alias.starts_with(prefix)) flags.push_back("--" + alias);
  }
  return flags;
}

std::vector<LaunchFlag> option_flags() {
  std::vector<LaunchFlag> flags;
  config::each_entry(config::root_table(), [&](const std::string& path, const Entry& entry) {
    const std::string name = config::launch_flag(path, entry);
    if (name.empty()) return;
    LaunchFlag flag{name, group_of(path), help_of(entry), value_words(entry), support_of(entry), spellings(entry)};
    flag.path = path;
    flags.push_back(std::move(flag));
  });
  return flags;
}

}  // namespace

const std::vector<LaunchFlag>& launch_flags() {
  static const std::vector<LaunchFlag> all = [] {
    std::vector<LaunchFlag> flags;
    std::set<std::string> names;
    for (auto&& list : {option_flags(), foreign_flags()}) {
      for (const LaunchFlag& flag : list) {
        if (names.insert(flag.name).second) flags.push_back(flag);
      }
    }
    return flags;
  }();
  return all;
}

void Asked::set(const std::string& path, const std::string& value, const std::string& flag) {
  sources.overrides.push_back({path, value, flag});
}

void Asked::refuse(const std::string& flag, const std::string& message, const char* rule) {
  sources.problems.push_back({{std::make_shared<const std::string>(flag), 0, 0}, "", message, rule});
}

void ask(const LaunchFlag& flag, const std::string& value, Asked& asked) {
  const auto& harmless = flag.harmless;
  if (std::find(harmless.begin(), harmless.end(), value) != harmless.end()) return;
  if (flag.act) {
    flag.act(value, flag, asked);
  } else if (!flag.path.empty()) {
    asked.set(flag.path, value, flag.name);
  } else if (flag.support == LaunchFlag::Support::kRefused) {
    asked.refuse(flag.name, "is not supported: " + flag.help);
  } else {
    asked.sources.without_effect.push_back({flag.name.substr(2), value, flag.name, flag.help});
  }
}

void finish(Asked& asked) {
  std::map<std::string, const config::Override*> first;
  for (const config::Override& flag : asked.sources.overrides) {
    const auto [other, is_new] = first.emplace(flag.path, &flag);
    if (is_new || config::lower(other->second->value) == config::lower(flag.value)) continue;
    asked.refuse(flag.source,
                 fmt::format("sets {} to {}, and {} sets it to {}: give one of them", flag.path,
                             config::shown(flag.value), other->second->source, config::shown(other->second->value)),
                 "one-value");
  }
}

}  // namespace trainer::cli
