#include <sched.h>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/config/device.h"
#include "engine/config/handover.h"
#include "engine/train/build.h"
#include "engine/worker/check_report.h"
#include "engine/worker/commands.h"

namespace trainer::worker {
namespace {

/// Ranks that share a core wait for each other at every collective; "" where each has its own.
std::string cores_warning(const config::Plan& plan) {
  const config::Config& config = plan.config;
  if (config::trains_on_gpus(config)) return "";
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return "";
  const int64_t cores = CPU_COUNT(&cpus), ranks = config.num_processes / std::max<int64_t>(1, config.num_machines);
  if (ranks <= cores) return "";
  return fmt::format("num_processes is {}, so {} ranks share the {} cores of this machine: {} would be as fast",
                     config.num_processes, ranks, cores, cores * std::max<int64_t>(1, config.num_machines));
}

}  // namespace

int check_command(const std::vector<std::string>& args) {
  const bool json = args == std::vector<std::string>{"--json"};
  if (!json && !args.empty()) throw ConfigError("`trainer-worker check` knows --json only; got {}.", args.front());
  config::Plan plan = config::inherited_plan();
  if (std::string warning = train::precision_warning(plan); !warning.empty() && !config::trains_on_gpus(plan.config))
    plan.warnings.push_back(std::move(warning));
  if (std::string warning = cores_warning(plan); !warning.empty()) plan.warnings.push_back(std::move(warning));
  const CheckReport report = check_report(plan);
  if (!report.warning.empty()) plan.warnings.push_back(report.warning);
  if (json) {
    fmt::print("{}\n", to_json(report, plan).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kDone;
  }
  fmt::print("{}", to_text(report, plan));
  fmt::print("\nNothing is wrong with {}{}.\n", plan.source,
             report.missing.empty() ? "" : ", but `trainer launch` needs what is missing");
  return kDone;
}

}  // namespace trainer::worker
