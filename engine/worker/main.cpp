// trainer-worker: the part of the program that needs libtorch.
#include <cstdio>
#include <map>

#include "engine/base/errors.h"
#include "engine/base/process_end.h"
#include "engine/base/screen.h"
#include "engine/base/signal_thread.h"
#include "engine/base/uncaught.h"
#include "engine/worker/commands.h"

namespace {

int run(int argc, char** argv) {
  using namespace trainer;
  const std::vector<std::string> args(argv + std::min(argc, 2), argv + argc);
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    receive_signals_on_own_thread();
    if (command == "rank") return worker::rank_command(args);
    if (command == "profile") return worker::profile_command(args);
    if (command == "selftest") return worker::selftest_command(args);
    if (command == "check") return worker::check_command(args);
    if (command == "describe-model") return worker::describe_model_command(args);
    if (command == "estimate-memory") return worker::estimate_memory_command(args);
    if (command == "export-checkpoint") return worker::export_checkpoint_command(args);
    if (command == "export") return worker::export_command(args);
    if (command == "eval") return worker::evaluate_command(args);
    if (command == "generate") return worker::generate_command(args);
    if (command == "merge") return worker::merge_command(args);
    if (command == "dump-logits") return worker::dump_logits_command(args);
    throw ConfigError("trainer-worker has no command '{}'. It is called by `trainer`.", command);
  } catch (const std::exception& error) {
    return end_uncaught(error, STDERR_FILENO);
  }
}

}  // namespace

int main(int argc, char** argv) {
  trainer::screen::open_missing();
  trainer::end_without_destroying_globals();
  return trainer::screen::finish_output(run(argc, argv));
}
