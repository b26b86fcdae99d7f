#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/config/device.h"
#include "engine/config/handover.h"
#include "engine/train/build.h"
#include "engine/worker/check_report.h"
#include "engine/worker/commands.h"

namespace trainer::worker {
int check_command(const std::vector<std::string>& args) {
  const bool json = args == std::vector<std::string>{"--json"};
  if (!json && !args.empty()) throw ConfigError("`trainer-worker check` knows --json only; got {}.", args.front());
  config::Plan plan = config::inherited_plan();
  if (std::string warning = train::precision_warning(plan); !warning.empty() && !config::trains_on_gpus(plan.config))
    plan.warnings.push_back(std::move(warning));
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
