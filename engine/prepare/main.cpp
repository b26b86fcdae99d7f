// trainer-prepare [show N | tokenize … | cache … | describe-data | describe-samples | describe-tokenizer]: tokenizes
// the samples of a plan into the cache that the ranks read, before they start; with `show`, prints the first ones;
// `trainer tokenize` and `trainer cache`; describes inputs for the wizard. Errors go to standard output, where the
// launcher and the wizard read them, but to standard error for the commands that people call.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/confinement.h"
#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/base/uncaught.h"
#include "engine/config/plan/handover.h"
#include "engine/prepare/cache.h"
#include "engine/prepare/describe.h"
#include "engine/prepare/inputs.h"
#include "engine/prepare/prepare_bar.h"
#include "engine/prepare/run_length.h"
#include "engine/prepare/show_samples.h"
#include "engine/prepare/tokenize.h"

namespace {

int prepare_plan(int64_t show) {
  using namespace trainer;
  log::open(log::Level::kInfo, "");
  const config::Plan plan = config::inherited_plan();
  prepare::Inputs inputs;
  {
    prepare::PrepareBar bar;
    inputs = prepare::load_inputs(plan, [&](double part, int64_t samples) { bar.show(part, samples); });
  }
  if (show == 0) prepare::prune_caches(plan.config.data);
  const int64_t samples = inputs.datasets.train ? inputs.datasets.train->size() : 0;
  if (samples > 0) prepare::run_length(plan.config, samples, plan.data_ranks());  // refused before a rank starts
  for (const std::string& note : inputs.datasets.notes) log::warning("data: {}", note);
  if (show > 0) fmt::print("{}", prepare::show_samples(inputs, show, isatty(STDOUT_FILENO) == 1));
  return kDone;
}

/// Whether a person called the command, and not the launcher or the wizard, which read its output.
bool is_for_people(const std::string& command) {
  return command == "show" || command == "tokenize" || command == "cache";
}

int run(const std::string& command, const std::vector<std::string>& args) {
  using namespace trainer;
  const int to = is_for_people(command) ? STDERR_FILENO : STDOUT_FILENO;
  try {
    if (command == "tokenize") return prepare::tokenize_command(args);
    if (command == "cache") return prepare::cache_command(args);
    if (command == "show") return prepare_plan(std::stoll(args.at(0)));
    if (command.empty()) return prepare_plan(0);
    const auto describe = command == "describe-data"      ? prepare::describe_data
                          : command == "describe-samples" ? prepare::describe_samples
                                                          : prepare::describe_tokenizer;
    fmt::print("{}\n", describe(config::inherited_plan()));
    return kDone;
  } catch (const std::exception& error) {
    return end_uncaught(error, to);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trainer;
  screen::open_missing();
  confine();  // data, tokenizers and templates may be a stranger's
  const std::string command = argc > 1 ? argv[1] : "";
  if (!is_for_people(command)) screen::outlive();
  return screen::finish_output(run(command, {argv + std::min(argc, 2), argv + argc}));
}
