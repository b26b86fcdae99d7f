#include "engine/worker/program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/beside_program.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/base/metrics.h"
#include "engine/base/process_end.h"
#include "engine/base/screen.h"
#include "engine/base/signal_thread.h"
#include "engine/base/uncaught.h"
#include "engine/worker/commands.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgramsVariable = "TRAINER_PROGRAMS";

using WorkerCommand = int (*)(const std::vector<std::string>& args);
constexpr std::pair<std::string_view, WorkerCommand> kCommands[] = {
    {"rank", worker::rank_command},
    {"profile", worker::profile_command},
    {"selftest", worker::selftest_command},
    {"check", worker::check_command},
    {"fit", worker::fit_command},
    {"describe-model", worker::describe_model_command},
    {"estimate-memory", worker::estimate_memory_command},
    {"export-checkpoint", worker::export_checkpoint_command},
    {"export", worker::export_command},
    {"eval", worker::evaluate_command},
    {"generate", worker::generate_command},
    {"merge", worker::merge_command},
    {"dump-logits", worker::dump_logits_command},
};

int run_command(int argc, char** argv) {
  receive_signals_on_own_thread();
  log::open(log::Level::kInfo, "");  // a rank opens its own once it knows its number
  const std::string command = argc > 1 ? argv[1] : "";
  for (const auto& [name, run] : kCommands)
    if (command == name) return run({argv + 2, argv + argc});
  if (std::getenv(kWorkerVariable) != nullptr)
    throw ConfigError("{} names this program, which is therefore called as trainer-worker, with '{}': unset it.",
                      kWorkerVariable, command);
  throw ConfigError("trainer-worker has no command '{}'. It is called by `trainer`.", command);
}

/// `work` as the whole of main().
int run_main(const std::function<int()>& work) {
  screen::open_missing();
  end_without_destroying_globals();
  const auto run = [&] {
    try {
      return work();
    } catch (const std::exception& error) {
      return end_uncaught(error, STDERR_FILENO);
    }
  };
  return screen::finish_output(run());
}

/// The folder with `trainer`. Errors: MachineError.
fs::path folder_of_programs(const std::string& given) {
  const char* const named = std::getenv(kProgramsVariable);
  const fs::path folder = named != nullptr ? named : given;
  if (access((folder / "trainer").c_str(), X_OK) != 0)
    throw MachineError("{}\n  Set {} to the folder of the installed programs, such as /usr/lib/trainer/bin.",
                       machine_error("run", folder / "trainer", errno).what(), kProgramsVariable);
  return folder;
}

[[noreturn]] void become_trainer(const fs::path& folder, const fs::path& self, char** argv) {
  setenv(kWorkerVariable, self.c_str(), 1);
  setenv(kMetricsVariable, added_metrics().c_str(), 1);
  std::string program = (folder / "trainer").string();
  argv[0] = program.data();
  std::fflush(nullptr);
  execv(program.c_str(), argv);
  throw machine_error("run", program, errno);
}

}  // namespace

int worker::run_worker(int argc, char** argv) {
  return run_main([&] { return run_command(argc, argv); });
}

int run_with(int argc, char** argv, const std::function<void()>& add, const std::string& programs) {
  return run_main([&] {
    unsetenv(kMetricsVariable);  // lists what this program adds itself
    add();
    const fs::path folder = folder_of_programs(programs), self = this_program();
    const char* const worker = std::getenv(kWorkerVariable);
    if (worker == nullptr || self != worker) become_trainer(folder, self, argv);
    set_programs_folder(folder);
    return run_command(argc, argv);
  });
}

}  // namespace trainer
