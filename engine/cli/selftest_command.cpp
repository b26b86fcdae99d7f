#include <filesystem>
#include <map>
#include <random>

#include "engine/base/temporary_folder.h"
#include "engine/cli/command.h"
#include "engine/cli/flags.h"
#include "engine/cli/rank_devices.h"
#include "engine/cli/worker.h"
#include "engine/config/machine/device.h"
#include "engine/config/names.h"
#include "engine/launch/run.h"

namespace trainer::cli {

int run_selftest(const Arguments& arguments) {
  CLI::App app(
      "Train tiny models under every strategy on this machine and compare losses and gradients with those of one rank; "
      "or resume every strategy's checkpoints under every other strategy.",
      "selftest");
  app.footer(
      "Examples:\n  trainer selftest\n"
      "  trainer selftest --num_processes 8 --all\n"
      "  trainer selftest --resume --only FSDP\n");
  int64_t ranks = 4, random = 0;
  uint64_t seed = std::random_device()();
  bool all = false, resume = false;
  std::string only;
  app.add_option("--num_processes", ranks, "ranks to use; strategies that need more are skipped")
      ->check(CLI::Range(1, 64));
  app.add_flag("--all", all, "every combination; without it, a few that cover every pair of choices");
  app.add_flag("--resume", resume,
               "test checkpoints instead: each strategy resumes what each has saved; with --all, for more models");
  app.add_option("--random", random, "this many cases of random sizes instead; with --resume, this many of its cases")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--only", only, "cases whose name contains this text");
  std::map<std::string, config::DdpBackend> backends;
  for (const auto& [value, name] : config::EnumNames<config::DdpBackend>::values) backends.emplace(name, value);
  auto backend = config::DdpBackend::kGloo;
  app.add_option("--backend", backend, "the communication library, as training.ddp_backend")
      ->transform(CLI::CheckedTransformer(backends));
  std::string device = "cpu";
  app.add_option("--device", device, "where ranks train: cpu, or cuda (docs/gpu.md)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--seed", seed, "seed of the random cases, to repeat them");
  if (!parse(app, arguments)) return 0;
  const char* const kind = resume                 ? (all ? "resume-all" : "resume")
                           : random > 0           ? "random"
                           : all || !only.empty() ? "all"
                                                  : "pairwise";
  const Arguments words{"selftest", kind, std::to_string(seed), std::to_string(random), only};
  config::Plan plan;
  plan.source = "selftest";
  plan.config.use_cpu = device == "cpu";
  if (plan.config.use_cpu && backend == config::DdpBackend::kNccl)
    throw ConfigError("--backend nccl needs --device cuda: NCCL only communicates GPU tensors.");
  plan.config.distributed_type =
      plan.config.use_cpu ? config::DistributedType::kMultiCpu : config::DistributedType::kMultiGpu;
  plan.config.num_processes = ranks;
  plan.config.training.ddp_backend = backend;
  if (!plan.config.use_cpu) require_gpus(config::gpus_needed(plan.config));
  const auto places = check_devices(plan.config).places;
  TemporaryFolder output("trainer-selftest");
  plan.config.output_dir = output.path();
  const int code = launch::run(plan, worker_path(), {}, {}, words, places, launch::Output::kTemporary);
  if (code == kInternalFailure) output.keep();  // the message asks for its logs
  return code;
}

}  // namespace trainer::cli
