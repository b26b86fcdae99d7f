#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/train/check/describe_model.h"
#include "engine/worker/commands.h"

namespace trainer::worker {

int describe_model_command(const std::vector<std::string>& args) {
  if (args.empty() || args.size() > 2)
    throw ConfigError("describe-model takes a folder or the text of a config.json, and optionally a task.");
  fmt::print("{}\n", train::describe_model(args[0], args.size() > 1 ? args[1] : ""));
  return kDone;
}

}  // namespace trainer::worker
