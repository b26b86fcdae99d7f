// trainer-prepare [show N]: tokenises the samples of a plan into the cache that the ranks read, before they start; with
// `show`, prints the first ones. What is wrong goes to standard output, where the launcher takes it from, but with
// `show` to the screen.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/safe_text.h"
#include "engine/config/handover.h"
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
  for (const std::string& note : inputs.datasets.notes) log::warning("warning: data: {}", note);
  if (show > 0) fmt::print("{}", prepare::show_samples(inputs, show, isatty(STDOUT_FILENO) == 1));
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trainer;
  const bool shows = argc == 3 && std::string_view(argv[1]) == "show";
  FILE* const to = shows ? stderr : stdout;
  try {
    return prepare_plan(shows ? std::atoll(argv[2]) : 0);
  } catch (const Error& error) {
    fmt::print(to, "{}\n", safe_text(error.what()));
    return error.code();
  } catch (const std::exception& error) {
    fmt::print(to, "internal error: {}\nPlease report this.\n", safe_text(error.what()));
    return kInternalFailure;
  }
}
