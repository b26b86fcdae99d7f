#include "engine/checkpoint/export_checkpoint.h"

#include "engine/base/errors.h"
#include "engine/worker/commands.h"

namespace trainer::worker {

int export_checkpoint_command(const std::vector<std::string>& args) {
  require(args.size() == 2, "export-checkpoint takes 2 arguments, not {}", args.size());
  checkpoint::export_checkpoint(args[0], args[1]);
  fmt::print("exported {} to {}\n", args[0], args[1]);
  return kDone;
}

}  // namespace trainer::worker
