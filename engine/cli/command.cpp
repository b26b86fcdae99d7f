#include "engine/cli/command.h"

namespace trainer::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      {"config", "ask what to train and how, and write the file", run_config},
      {"convert", "convert TrainingArguments, axolotl's or LLaMA-Factory's file", run_convert},
      {"check", "find problems in a configuration without starting a run", run_check},
      {"launch", "train as the file says", run_launch},
      {"explain", "print every option, its value and where that came from", run_explain},
      {"tokenize", "text to ids and back; `tokenize train` makes a tokenizer", run_tokenize},
      {"cache", "the token caches of this machine: list them, remove old ones", run_cache},
      {"checkpoint", "list, verify, export, prune or save a run's checkpoints", run_checkpoint},
      {"eval", "measure a model or adapter on the validation samples", run_eval},
      {"generate", "answer prompts with a model or adapter, or chat with it", run_generate},
      {"merge", "merge an adapter, or several, into their base model", run_merge},
      {"export", "write a model or adapter for transformers or llama.cpp", run_export},
      {"report", "make a page of a run's curves and figures; compare runs", run_report},
      {"replay", "repeat updates of a run and compare every number", run_replay},
      {"profile", "measure where the time of an update goes", run_profile},
      {"estimate-memory", "print the memory that training a model takes", run_estimate_memory},
      {"env", "print what a bug report needs", run_env},
      {"completion", "print a script that completes commands in a shell", run_completion},
      {"man", "show the manual page of a command", run_man},
      {"test", "train tiny models as a configuration says, on this machine", run_test},
      {"selftest", "train tiny models under every strategy, and compare", run_selftest},
  };
  return table;
}

}  // namespace trainer::cli
