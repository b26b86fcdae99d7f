// The help of `trainer launch`: the most used flags first; flags without effect on one line per group.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/cli/launch_flags.h"
#include "engine/config/clusters/cluster_job.h"

namespace trainer::cli {
namespace {

constexpr std::size_t kColumn = 30;

struct Heading {
  Group group;
  const char* text;
};
constexpr Heading kHeadings[] = {
    {Group::kCommon, "Most used"},
    {Group::kAccelerate, "Accelerate's"},
    {Group::kFsdp, "FSDP"},
    {Group::kDeepspeed, "DeepSpeed (runs without it)"},
    {Group::kMegatron, "Megatron-LM (runs without it)"},
    {Group::kParallelism, "The mesh of ranks"},
    {Group::kTorchrun, "torchrun's and torch.distributed.launch's"},
};

/// Long lines are wrapped when they are printed.
std::string row(const std::string& names, const std::string& help) {
  const std::string left = "  " + names;
  if (left.size() + 2 > kColumn) return fmt::format("{}\n{:{}}{}\n", left, "", kColumn, help);
  return fmt::format("{:<{}}{}\n", left, kColumn, help);
}

std::string names_of(const LaunchFlag& flag) {
  std::string names = flag.name;
  for (const std::string& other : flag.others) names += ", " + other;
  return flag.value.empty() ? names : names + " " + flag.value;
}

std::string group_text(const Heading& heading) {
  std::string rows, idle, refused;
  if (heading.group == Group::kCommon) {
    rows += row("JOB.yaml", "The sections that Accelerate doesn't know, or all of them.");
    rows += row("--config_file FILE", "Accelerate's YAML file, with or without trainer's sections.");
    rows += row("--set SECTION.KEY=VALUE", "Set any option; can be repeated.");
  }
  for (const LaunchFlag& flag : launch_flags()) {
    if (flag.group != heading.group) continue;
    if (flag.support == LaunchFlag::Support::kHonored) {
      rows += row(names_of(flag), flag.help);
    } else {
      (flag.support == LaunchFlag::Support::kNoEffect ? idle : refused) += " " + flag.name;
    }
  }
  std::string text = fmt::format("\n{}:\n{}", heading.text, rows);
  if (!idle.empty()) text += fmt::format("  no effect:{}\n", idle);
  if (!refused.empty()) text += fmt::format("  refused:{}\n", refused);
  return text;
}

}  // namespace

std::string launch_help(const CLI::App& app) {
  const std::string& command = app.get_name();
  std::string text = fmt::format("{}\n\nUsage: trainer {} [--config_file FILE] [JOB.yaml] [FLAGS]\n{}",
                                 app.get_description(), command, app.get_footer());
  text +=
      "\nSpell flags with - or _, and with = or a space before the value; flags without a value also accept true or "
      "false. `trainer explain OPTION` describes an option.\n";
  if (command == "launch")
    text += "\nClusters:\n" +
            row("--new_secret FILE", "Write a new secret for the machines of a run (TRAINER_SECRET_FILE) instead.") +
            row("--emit KIND", fmt::format("Print what starts this run on a cluster instead: {}. See docs/clusters.md.",
                                           fmt::join(config::cluster_kinds(), ", ")));
  for (const Heading& heading : kHeadings) text += group_text(heading);
  return text;
}

}  // namespace trainer::cli
