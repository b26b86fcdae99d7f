#include "engine/cli/command.h"

namespace trainer::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      {"config", "ask what to train and how, and write the configuration file", run_config},
      {"check", "find the problems in a configuration and its files, without starting a run", run_check},
      {"launch", "train as the file says", run_launch},
      {"explain", "print every option with its value and where the value came from", run_explain},
      {"tokenize", "convert text to ids and back; `tokenize train` trains a tokenizer on text", run_tokenize},
      {"checkpoint", "list, verify, export and prune the checkpoints of a run, or save one now", run_checkpoint},
      {"report", "make a page of a run's curves, figures and predictions, or compare runs", run_report},
      {"replay", "repeat updates of a run and compare every number with the recorded one", run_replay},
      {"estimate-memory", "print the memory that loading and training a model takes, from its config.json",
       run_estimate_memory},
      {"env", "print what a bug report needs about this program, this machine and its settings", run_env},
      {"test", "train tiny models as a configuration says, to see that it works on this machine", run_test},
      {"selftest", "train tiny models under every strategy on this machine and compare the numbers", run_selftest},
  };
  return table;
}

}  // namespace trainer::cli
