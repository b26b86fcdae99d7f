#include <CLI/CLI.hpp>

#include "engine/base/screen.h"
#include "engine/train/profile/profile.h"
#include "engine/worker/commands.h"
#include "engine/worker/rank.h"

namespace trainer::worker {

int profile_command(const std::vector<std::string>& args) {
  CLI::App app{"Where the time of an update goes"};
  train::ProfileRequest request;
  bool json = false;
  app.add_option("--warmup", request.warmup);
  app.add_option("--steps", request.steps);
  app.add_option("--trace", request.trace);
  app.add_flag("--json", json);
  app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  return run_trainer([&](train::Trainer& trainer, dist::Comm& comm) {
    const auto profile = train::profile(trainer, comm, request);
    if (!profile) return train::Ending::kStopped;
    if (comm.rank() == 0)
      screen::print("{}", json ? train::profile_json(*profile) + "\n" : train::profile_text(*profile));
    return train::Ending::kDone;
  });
}

}  // namespace trainer::worker
