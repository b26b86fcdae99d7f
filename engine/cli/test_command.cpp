#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/base/temporary_folder.h"
#include "engine/cli/flags.h"
#include "engine/cli/rank_devices.h"
#include "engine/cli/started_once.h"
#include "engine/cli/worker.h"
#include "engine/config/machine/device.h"
#include "engine/config/machine/environment.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/names.h"
#include "engine/launch/run.h"

namespace trainer::cli {
namespace {

/// Finds what this machine lacks before ranks are started. Errors: ConfigError.
void check_machine(const config::Plan& plan) {
  const config::Config& config = plan.config;
  if (const std::string problem = started_several_times("test"); !problem.empty()) throw ConfigError("{}", problem);
  config::check_started_rank(plan);
  if (!config::trains_on_gpus(config)) return;
  if (const std::string lacking = config::lacking_for_gpus(config); !lacking.empty() && !driver_fails())
    throw ConfigError("{}: trains on GPUs, and {}", plan.source, lacking);
}

/// The configuration without what tiny models don't use: its model, data, logging and checkpoints.
config::Plan bare(const config::Plan& configured, const std::filesystem::path& output) {
  config::Plan plan = configured;
  config::Config& c = plan.config;
  c.model = {};
  c.tokenizer = {};
  c.data = {};
  c.lora.reset();
  c.checkpoint = {};
  c.evaluation = {};
  c.logging = {};
  c.max_restarts = 0;
  c.min_machines = 0;
  c.output_dir = output;
  return plan;
}

std::string configuration_text(const config::Config& config) {
  std::string text = config::name_of(config.distributed_type);
  if (config.distributed_type == config::DistributedType::kFsdp)
    text += fmt::format(" {}", config::name_of(config.fsdp_config.sharding_strategy));
  text += fmt::format(", {} {}", config.num_processes, config.num_processes == 1 ? "rank" : "ranks");
  if (config.num_machines > 1) text += fmt::format(" on {} machines", config.num_machines);
  return text + fmt::format(", {}, mixed_precision {}", config::trains_on_gpus(config) ? "GPU" : "CPU",
                            config::name_of(config.mixed_precision));
}

/// `json`: one object instead of lines.
void report_result(const config::Plan& plan, int code, bool json) {
  const std::string what = configuration_text(plan.config);
  if (json)
    fmt::print("{}\n",
               nlohmann::ordered_json{
                   {"success", code == kDone}, {"exit_code", code}, {"configuration", plan.source}, {"tested", what}}
                   .dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else if (code == kDone)
    fmt::print("The test is a success: {} works on this machine ({}).\n", plan.source, what);
  if (code != kDone)
    screen::error("The test failed (exit code {}): {} ({}); the reason is above.\n", code, plan.source, what);
}

int test_plan(const PlanFlags& flags, bool json) {
  const config::Plan configured = flags.resolve_for_test();
  for (const std::string& warning : config::launch_warnings(configured)) log::warning("{}", warning);
  if (const std::string reading = config::machine_reading(configured); !reading.empty()) log::info("{}", reading);
  check_machine(configured);
  const auto places = check_devices(configured.config).places;
  TemporaryFolder output("trainer-test");
  const launch::Patience patience{.join = flags.join_timeout(), .last_call = flags.last_call()};
  const int code = launch::run(bare(configured, output.path()), worker_path(), patience, {},
                               {"selftest", json ? "configuration-silently" : "configuration", "0", "0", ""}, places,
                               launch::Output::kTemporary);
  if (code == kInternalFailure) output.keep();  // the message asks for its logs
  report_result(configured, code, json);
  return code;
}

}  // namespace

int run_test(const Arguments& arguments) {
  CLI::App app("Train tiny models as a configuration says, and compare losses and gradients with those of one rank.",
               "test");
  app.footer(
      "  The file may be Accelerate's own: a model, data and a tokenizer aren't needed, and aren't used if they are "
      "there.\n"
      "  From the file: distributed_type, ranks, machines, devices, precision, sharding, parallel sizes, offload,\n"
      "  gradient checkpointing and accumulation. Not tested: ddp_comm_hook, local_sgd_steps, quantization.\n"
      "  On several machines, run it on each, with the flags of `trainer launch`.\n"
      "  --json: print one JSON object to standard output, for scripts\n"
      "Examples:\n  trainer test                              the default configuration file\n"
      "  trainer test --config_file fsdp.yaml\n"
      "  trainer test --config_file fsdp.yaml --num_processes 2 --cpu\n");
  PlanFlags flags(app);
  bool json = false;
  app.add_flag("--json", json);
  if (!flags.parse(arguments)) return 0;
  screen::outlive();
  try {
    return test_plan(flags, json);
  } catch (const std::exception&) {  // reported after this line
    screen::error("The test failed; nothing was trained:\n");
    throw;
  }
}

}  // namespace trainer::cli
