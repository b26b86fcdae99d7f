#include "engine/checkpoint/export_checkpoint.h"
#include "engine/checkpoint/export_megatron.h"

#include "engine/base/errors.h"
#include "engine/worker/commands.h"

namespace trainer::worker {

int export_checkpoint_command(const std::vector<std::string>& args) {
  require(args.size() == 2 || args.size() == 4, "export-checkpoint takes 2 or 4 arguments, not {}", args.size());
  if (args.size() == 2)
    checkpoint::export_checkpoint(args[0], args[1]);
  else
    checkpoint::export_megatron(args[0], args[1], {std::stoll(args[2]), std::stoll(args[3])});
  fmt::print("exported {} to {}\n", args[0], args[1]);
  return kDone;
}

}  // namespace trainer::worker
