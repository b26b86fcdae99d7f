// trainer-prepare: tokenises the samples of a plan into the cache that the ranks read, before they start.
#include <cstdio>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/config/handover.h"
#include "engine/prepare/inputs.h"
#include "engine/prepare/prepare_bar.h"

namespace {

int prepare_plan() {
  using namespace trainer;
  log::open(log::Level::kInfo, "");
  const config::Plan plan = config::inherited_plan();
  prepare::Inputs inputs;
  {
    prepare::PrepareBar bar;
    inputs = prepare::load_inputs(plan, [&](double part, int64_t samples) { bar.show(part, samples); });
  }
  for (const std::string& note : inputs.datasets.notes) log::warning("warning: data: {}", note);
  return kDone;
}

}  // namespace

int main() {
  using namespace trainer;
  try {
    return prepare_plan();
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\nPlease report this.\n", error.what());
    return kInternalFailure;
  }
}
