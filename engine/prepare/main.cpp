// trainer-prepare [show N | describe-data | describe-tokenizer]: tokenizes the samples of a plan into the cache that
// the ranks read, before they start; with `show`, prints the first ones; describes inputs for the wizard. Errors go to
// standard output, where the launcher reads them, but with `show` to standard error.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/safe_text.h"
#include "engine/base/screen.h"
#include "engine/config/plan/handover.h"
#include "engine/prepare/describe.h"
#include "engine/prepare/inputs.h"
#include "engine/prepare/prepare_bar.h"
#include "engine/prepare/show_samples.h"

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
  for (const std::string& note : inputs.datasets.notes) log::warning("data: {}", note);
  if (show > 0) fmt::print("{}", prepare::show_samples(inputs, show, isatty(STDOUT_FILENO) == 1));
  return kDone;
}

int run(std::string_view command, bool shows, int64_t show) {
  using namespace trainer;
  const int to = shows ? STDERR_FILENO : STDOUT_FILENO;
  try {
    if (command != "describe-data" && command != "describe-tokenizer") return prepare_plan(show);
    const auto describe = command == "describe-data" ? prepare::describe_data : prepare::describe_tokenizer;
    fmt::print("{}\n", describe(config::inherited_plan()));
    return kDone;
  } catch (const Error& error) {
    screen::write(to, safe_text(error.what()) + "\n");
    return error.code();
  } catch (const std::exception& error) {
    if (screen::is_lost_output(error)) return kDone;
    screen::write(to, fmt::format("internal error: {}\nPlease report this.\n", safe_text(error.what())));
    return kInternalFailure;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trainer;
  screen::open_missing();
  const bool shows = argc == 3 && std::string_view(argv[1]) == "show";
  const std::string_view command = argc == 2 ? argv[1] : "";
  if (!shows) screen::outlive();
  return screen::finish_output(run(command, shows, shows ? std::atoll(argv[2]) : 0));
}
