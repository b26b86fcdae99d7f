#include <utility>

#include <fmt/format.h>

#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"
#include "engine/cli/flags.h"
#include "engine/cli/problem_report.h"
#include "engine/cli/worker.h"

namespace trainer::cli {
namespace {

/// The flags for planning a run on other machines, as the launch flags that they are short for.
Arguments with_launch_flags(const Arguments& arguments) {
  const std::pair<std::string, std::string> others[] = {{"--nodes", "--num_machines"}, {"--gpus", "--nproc_per_node"}};
  Arguments out;
  for (const std::string& argument : arguments) {
    out.push_back(argument);
    for (const auto& [name, other] : others)
      if (argument == name || argument.starts_with(name + "=")) out.back().replace(0, name.size(), other);
  }
  return out;
}

}  // namespace

int run_check(const Arguments& arguments) {
  CLI::App app("Find the problems in a configuration and the files it names, without starting a run.", "check");
  app.footer(
      "  --json: print one JSON object to standard output, for scripts\n"
      "  --gpu_memory N|CARD: GiB of each rank's GPU, or its name (H100, \"A100 80GB\"): a run that needs more is an "
      "error,\n    reported with what would fit; without the flag, the memory of --device or of this machine's GPUs\n"
      "  --device CARD: predicts the speed of an update on GPUs of that name, which this machine needn't have\n"
      "  --nodes N, --gpus N: machines, and GPUs of each, for --num_machines and --nproc_per_node\n"
      "  --net BANDWIDTH: of each GPU's link to other machines, for --device (400Gb, which is the default, or 50GB)\n"
      "Examples:\n  trainer check t5.yaml\n"
      "  trainer check --config_file fsdp.yaml job.yaml --num_processes 8\n"
      "  trainer check 7b.yaml --device H100 --nodes 2 --gpus 8\n");
  PlanFlags flags(app);
  bool json = false;
  std::string gpu_memory, device, network;
  app.add_flag("--json", json);
  app.add_option("--gpu_memory", gpu_memory);
  app.add_option("--device", device);
  app.add_option("--net", network);
  if (!flags.parse(with_launch_flags(arguments))) return 0;
  config::Plan plan;
  try {
    plan = flags.resolve(/*to_run=*/false);
  } catch (const ConfigError& error) {
    const auto problems = problems_of(error);
    if (json) {
      fmt::print("{}\n", problem_json(problems));
    } else {
      screen::error("{}", problem_report(problems, wants_color()));
    }
    return kUsageFailure;
  }
  Arguments words{"check"};
  if (json) words.emplace_back("--json");
  const std::pair<const char*, const std::string&> target[] = {
      {"--gpu_memory", gpu_memory}, {"--device", device}, {"--net", network}};
  for (const auto& [name, value] : target)
    if (!value.empty()) words.insert(words.end(), {name, value});
  become_worker(words, &plan);
}

}  // namespace trainer::cli
