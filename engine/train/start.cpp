#include "engine/train/start.h"

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/weights/foreign_checkpoint.h"

namespace trainer::train {

Start start_of(const config::Config& config) {
  const std::string& choice = config.checkpoint.resume_from_checkpoint;
  const auto newest = checkpoint::newest_checkpoint(config.output_dir);
  if (choice == "false") {
    if (newest)
      throw ConfigError(
          "output_dir {} holds checkpoints of an earlier run (the newest is {}), but checkpoint.resume_from_checkpoint "
          "is false.\n  Choose another output_dir or remove the checkpoints; nothing was changed.",
          config.output_dir, newest->folder.filename().string());
    return Start::kFromScratch;
  }
  if (choice == "true" && !newest)
    throw InputError(
        "checkpoint.resume_from_checkpoint is true, but {} holds no checkpoint.\n  Use 'auto' to start from scratch "
        "when there is none.",
        config.output_dir);
  if (choice == "auto" || choice == "true") return newest ? Start::kNewest : Start::kFromScratch;
  if (!checkpoint::is_checkpoint(choice))
    throw InputError("checkpoint.resume_from_checkpoint: {} is not a checkpoint: it has no {}{}", choice,
                     checkpoint::kManifestFile, checkpoint::foreign_checkpoint(choice));
  return Start::kNamed;
}

Start agreed_start(const config::Config& config, dist::Comm& comm) {
  return static_cast<Start>(comm.max(comm.rank() == 0 ? static_cast<double>(start_of(config)) : 0.0));
}

std::optional<checkpoint::Trust> trust_of(const config::Config& config, Start start,
                                          const checkpoint::FolderAccess& access) {
  if (!access.this_rank_sees()) return std::nullopt;
  return checkpoint::trust_in(config.checkpoint.trusted_key, start == Start::kNamed ? "" : config.output_dir);
}

}  // namespace trainer::train
