// The help of `trainer launch`: the most used flags first; flags without effect on one line per group.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/cli/launch_flags.h"
#include "engine/config/clusters/cluster_job.h"

namespace trainer::cli {
namespace {

constexpr std::size_t kWidth = 110, kColumn = 44;

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

/// Wraps `text` at kWidth; the first line begins at column `start`, the others at `indent`.
std::string wrapped(const std::string& text, std::size_t start, std::size_t indent) {
  std::string out, line(start, ' ');
  std::size_t begin = start;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (line.size() > begin && line.size() + 1 + word.size() > kWidth) {
      out += line.substr(out.empty() ? start : 0) + "\n";
      line.assign(begin = indent, ' ');
    }
    line += (line.size() > begin ? " " : "") + word;
    at = end + 1;
  }
  return out + line.substr(out.empty() ? start : 0) + "\n";
}

std::string row(const std::string& names, const std::string& help) {
  const std::string left = "  " + names;
  if (left.size() + 2 > kColumn) return left + "\n" + std::string(kColumn, ' ') + wrapped(help, kColumn, kColumn);
  return left + std::string(kColumn - left.size(), ' ') + wrapped(help, kColumn, kColumn);
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
  if (!idle.empty()) text += "  " + wrapped("no effect:" + idle, 2, 4);
  if (!refused.empty()) text += "  " + wrapped("refused:" + refused, 2, 4);
  return text;
}

}  // namespace

std::string launch_help(const CLI::App& app) {
  const std::string& command = app.get_name();
  std::string text = fmt::format("{}\n\nUsage: trainer {} [--config_file FILE] [JOB.yaml] [FLAGS]\n{}",
                                 app.get_description(), command, app.get_footer());
  text +=
      "\nSpell flags with - or _, and with = or a space before the value; flags without a value also accept true or\n"
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
