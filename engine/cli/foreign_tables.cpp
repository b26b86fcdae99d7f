#include "engine/cli/foreign_tables.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "engine/cli/launch_flags.h"
#include "engine/config/ds_config.h"
#include "engine/config/plan/reader.h"
#include "engine/config/tables.h"

namespace trainer::cli {
namespace {

using config::Entries;
using config::Entry;
using config::Foreign;

/// Keys by what happens to them, in the order in which that first occurs.
class Table {
 public:
  void add(const std::string& name, const std::string& fate) {
    auto same = std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) { return row.first == fate; });
    if (same == rows_.end()) same = rows_.insert(rows_.end(), {fate, ""});
    same->second += (same->second.empty() ? "`" : ", `") + name + "`";
  }

  std::string text(const std::string& title) const {
    std::string page = fmt::format("### {}\n\n| | here |\n|---|---|\n", title);
    for (const auto& [fate, names] : rows_) page += fmt::format("| {} | {} |\n", names, cell(fate));
    return page + "\n";
  }

 private:
  static std::string cell(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
    return out;
  }

  std::vector<std::pair<std::string, std::string>> rows_;
};

std::string fate_of(const Entry& entry) {
  switch (entry.foreign) {
    case Foreign::kTranslated:
      return entry.help;
    case Foreign::kNoEffect:
      return "no effect: " + entry.reason;
    case Foreign::kUnsupported:
      return "refused: " + entry.reason;
    case Foreign::kNot:
      break;
  }
  return entry.no_effect.empty() ? "honored" : "no effect: " + entry.no_effect;
}

using Wanted = std::function<bool(const std::string& path, const Entry& entry)>;

/// The keys below `entries`.
std::string keys(const std::string& title, const Entries& entries, const Wanted& wanted = {}) {
  Table table;
  config::each_entry(entries, [&](const std::string& path, const Entry& entry) {
    if (!entry.children && (!wanted || wanted(path, entry))) table.add(path, fate_of(entry));
  });
  return table.text(title);
}

std::string fate_of(const LaunchFlag& flag) {
  if (flag.support == LaunchFlag::Support::kNoEffect) return "no effect: " + flag.help;
  if (flag.support == LaunchFlag::Support::kRefused) return "refused: " + flag.help;
  const std::string key = flag.path.substr(flag.path.rfind('.') + 1);
  return flag.path.empty() ? flag.help : "--" + key == flag.name ? "sets the option of this name" : "sets " + flag.path;
}

std::string flags(const std::string& title, const std::vector<Group>& groups) {
  Table table;
  for (const LaunchFlag& flag : launch_flags())
    if (std::find(groups.begin(), groups.end(), flag.group) != groups.end()) table.add(flag.name, fate_of(flag));
  return table.text(title);
}

}  // namespace

std::string foreign_tables() {
  const auto accelerate = [](const std::string& path, const Entry& entry) {
    const std::size_t dot = path.find('.');
    if (dot == std::string::npos) return entry.accelerate || entry.foreign != Foreign::kNot;
    const std::string section = path.substr(0, dot);
    if (section == "deepspeed_config" || section == "megatron_lm_config") return false;  // have tables of their own
    return std::any_of(config::root_table().begin(), config::root_table().end(),
                       [&](const Entry& top) { return top.name == section && top.accelerate; });
  };
  return keys("Accelerate's configuration file", config::root_table(), accelerate) +
         flags("`accelerate launch`", {Group::kAccelerate, Group::kFsdp, Group::kParallelism}) +
         flags("`torchrun` and `torch.distributed.launch`", {Group::kTorchrun}) +
         keys("`TrainingArguments`", config::training_table()) +
         keys("DeepSpeed's section of Accelerate's file", config::deepspeed_table()) +
         keys("DeepSpeed's `ds_config.json`", config::ds_config_table()) +
         flags("DeepSpeed's launcher and Accelerate's flags for it", {Group::kDeepspeed}) +
         keys("Megatron-LM's section of Accelerate's file, and its flags", config::megatron_table());
}

}  // namespace trainer::cli
