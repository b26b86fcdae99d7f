#include "engine/cli/command.h"

namespace trainer::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      {"config", "asks what to train and how, and writes the configuration file", run_config},
      {"check", "finds what is wrong with a configuration and its files, without starting a run", run_check},
      {"launch", "runs it", run_launch},
      {"explain", "prints every option with its value and where that came from", run_explain},
      {"tokenize", "text to ids and back; `tokenize train` makes a tokenizer from text", run_tokenize},
      {"checkpoint", "lists, verifies, exports and prunes the checkpoints of a run", run_checkpoint},
      {"replay", "makes updates of a run once more and compares every number with what it recorded", run_replay},
      {"selftest", "trains tiny models in every way on this machine, and compares the numbers", run_selftest},
  };
  return table;
}

}  // namespace trainer::cli
