#include <algorithm>
#include <filesystem>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/cli/emit.h"
#include "engine/cli/flags.h"
#include "engine/cli/rank_devices.h"
#include "engine/cli/terminal.h"
#include "engine/cli/worker.h"
#include "engine/cli/worker_child.h"
#include "engine/config/machine/environment.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/tables.h"
#include "engine/launch/farewell.h"
#include "engine/launch/local_peers.h"
#include "engine/launch/run.h"
#include "engine/launch/secret.h"
#include "engine/launch/slurm.h"

namespace trainer::cli {
namespace {

constexpr std::size_t kMostLines = 5;  // plus one that counts them: an error message has at most six lines

std::string first_lines(const std::string& text) {
  std::size_t end = 0;
  for (std::size_t line = 0; line < kMostLines; ++line) {
    end = text.find('\n', end);
    if (end == std::string::npos) return text;
    ++end;
  }
  return text.substr(0, end - 1);
}

config::Plan resolve(const PlanFlags& flags) {
  try {
    return flags.resolve();
  } catch (const config::ConfigProblems& found) {
    if (found.problems().size() < 2) throw;
    throw ConfigError("{}\n{} problems; `trainer check` with the same arguments shows {}", first_lines(found.what()),
                      found.problems().size(), found.problems().size() > kMostLines ? "all of them" : "the lines");
  }
}

/// `seconds`: how long the peers wait for a missing rank before the run ends; it is reported earlier. Within an update,
/// whose duration is known, the run waits a sixtieth as long.
launch::WatchPatience watch_patience(int64_t seconds) {
  launch::WatchPatience patience;
  patience.late = static_cast<double>(seconds);
  patience.hung = std::max(patience.hung, patience.late / 60);
  patience.tell = std::min(patience.tell, patience.late / 2);
  return patience;
}

/// The checks before this machine meets the others.
void check_start(const config::Plan& plan, const std::optional<config::StartedRank>& started) {
  config::check_started_rank(plan);
  if (started && plan.config.training.ddp_backend == config::DdpBackend::kMpi)
    throw ConfigError(
        "training.ddp_backend is mpi, for which trainer starts the ranks itself, but {} started this process ({})\n  "
        "start trainer once, without {}; --num_processes sets the number of ranks",
        started->by, started->variables, started->by);
  for (const std::string& warning : config::launch_warnings(plan)) log::warning("{}", warning);
  if (const std::string reading = config::machine_reading(plan); !reading.empty()) log::info("{}", reading);
  prepare_path();
}

/// What a user usually does after the run.
std::string next_steps(const config::Config& config) {
  const std::string folder = std::filesystem::proximate(config.output_dir).string();
  const bool generates = config.data.task == config::Task::kCausalLm || config.data.task == config::Task::kSeq2SeqLm;
  const bool dialogue = config.data.dialogue != config::Dialogue::kNone;
  const bool answers = !config.dpo && (dialogue || !config.data.target.empty());
  const bool only_loss = config.evaluation.metrics == std::vector<std::string>{"loss"};
  const char* const chat = dialogue ? "--chat " : "";
  std::string text = generates ? fmt::format("try it:   trainer generate {} {}--prompt 'TEXT'\n", folder, chat)
                               : "measure:  trainer eval with the same arguments, and --data FILE\n";
  if (generates && answers && only_loss && config::validates(config))  // others generate every answer: no default
    text += "measure:  trainer eval with the same arguments, and --metrics rougeL exact_match\n";
  std::error_code ignored;
  const auto page = std::filesystem::path(folder) / "report.html";
  if (std::filesystem::exists(page, ignored)) text += fmt::format("curves:   {}\n", page.string());
  return text;
}

/// Runs the ranks of this machine.
int launch_ranks(const PlanFlags& flags, const std::optional<config::StartedRank>& started, launch::LocalPeers* peers) {
  config::Plan plan;
  RankDevices devices;
  bool resolved = false;
  try {
    plan = resolve(flags);
    resolved = true;
    check_start(plan, started);
    if (peers != nullptr) peers->gather(flags.join_timeout());
    devices = check_devices(plan.config, peers != nullptr ? peers->places() : std::vector<launch::PeerPlace>{});
  } catch (const Error& error) {
    if (started) launch::report_failed_start(*started, resolved ? &plan : nullptr, error);
    throw;
  }
  // Before the ranks connect: otherwise they would wait for each other, and for the slowest disk, inside a collective.
  const launch::Patience patience{.watch = watch_patience(plan.config.training.ddp_timeout),
                                  .join = flags.join_timeout(),
                                  .last_call = flags.last_call(),
                                  .kill_wait = launch::slurm_kill_wait().value_or(std::chrono::seconds(0))};
  const int code = launch::run(
      plan, worker_path(), patience, [&] { return run_prepare(plan, devices.free_bytes); }, {"rank"}, devices.places);
  if (code == kDone && plan.config.machine_rank == 0 && is_interactive()) screen::print("{}", next_steps(plan.config));
  return code;
}

/// As the first of several processes that were started on this machine; the others exit with its exit code.
int launch_for_peers(const PlanFlags& flags, const config::StartedRank& started) {
  launch::LocalPeers peers(started.job, static_cast<int>(started.local_ranks) - 1);
  try {
    const int code = launch_ranks(flags, started, &peers);
    peers.dismiss(code);
    return code;
  } catch (const Error& error) {
    peers.dismiss(error.code());
    throw;
  }
}

int write_secret(const std::string& file) {
  launch::create_secret(file);
  fmt::print(
      "wrote a new secret to {}, which only you can read\n"
      "copy the file to every machine of the run, and set the variable there before `trainer launch`:\n"
      "  export TRAINER_SECRET_FILE={}\n",
      file, std::filesystem::absolute(file).string());
  return kDone;
}

}  // namespace

int run_launch(const Arguments& arguments) {
  CLI::App app("Train as the configuration says.", "launch");
  app.footer(
      "\nExamples:\n  trainer launch t5.yaml\n"
      "  trainer launch --config_file fsdp.yaml job.yaml --num_processes 8\n"
      "  trainer launch t5.yaml --set training.learning_rate=1e-4 --set output_dir=runs/b\n");
  PlanFlags flags(app);
  std::string kind, secret_file;
  app.add_option("--emit", kind);
  app.add_option("--new_secret", secret_file);
  if (!flags.parse(arguments)) return 0;
  if (!secret_file.empty()) return write_secret(secret_file);
  if (!kind.empty()) return emit(kind, flags, arguments);
  screen::outlive();
  const std::optional<config::StartedRank> started = config::started_rank();
  if (!started || started->local_ranks == 1) return launch_ranks(flags, started, nullptr);
  if (started->local_rank == 0) return launch_for_peers(flags, *started);
  return launch::follow(started->job, static_cast<int>(started->local_rank), flags.join_timeout());
}

}  // namespace trainer::cli
