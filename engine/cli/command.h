// The commands of `trainer`.
#pragma once

#include <string>
#include <vector>

namespace trainer::cli {

using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* help;                        // one line
  int (*run)(const Arguments& arguments);  // takes the arguments after the name; returns the exit code
};

/// All commands, in the order `trainer --help` shows them.
const std::vector<Command>& commands();

int run_config(const Arguments& arguments);
int run_convert(const Arguments& arguments);
int run_launch(const Arguments& arguments);
int run_check(const Arguments& arguments);
int run_explain(const Arguments& arguments);
int run_cache(const Arguments& arguments);
int run_tokenize(const Arguments& arguments);
int run_selftest(const Arguments& arguments);
int run_checkpoint(const Arguments& arguments);
int run_completion(const Arguments& arguments);
int run_eval(const Arguments& arguments);
int run_generate(const Arguments& arguments);
int run_man(const Arguments& arguments);
int run_merge(const Arguments& arguments);
int run_export(const Arguments& arguments);
int run_profile(const Arguments& arguments);
int run_replay(const Arguments& arguments);
int run_estimate_memory(const Arguments& arguments);
int run_test(const Arguments& arguments);
int run_env(const Arguments& arguments);
int run_report(const Arguments& arguments);

}  // namespace trainer::cli
