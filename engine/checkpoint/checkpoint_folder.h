// Names, order and rotation of the checkpoints in an output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainer::checkpoint {

// Errors of what looks for checkpoints: MachineError when a folder exists, but can't be read.

/// Written last: a folder that has it is a checkpoint.
inline constexpr const char* kManifestFile = "manifest.json";
bool is_checkpoint(const std::filesystem::path& folder);

/// The files and folders in `output_dir`; none if it doesn't exist. A file server that doesn't answer must not pass for
/// an empty folder, or a run would start from scratch.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& output_dir);

struct Found {
  int64_t step;
  std::filesystem::path folder;
};

/// output_dir/checkpoint-<step>.
std::filesystem::path checkpoint_path(const std::filesystem::path& output_dir, int64_t step);
/// The folder it is written to before it is published. Its name contains the attempt, on several machines, or else a
/// digest of the folder's `owner`, so that ranks of an earlier life, which a paused machine may still run, don't write
/// into it.
std::filesystem::path partial_path(const std::filesystem::path& output_dir, int64_t step,
                                   const std::string& owner = "");

/// Published checkpoints, oldest first.
std::vector<Found> find_checkpoints(const std::filesystem::path& output_dir);
std::optional<Found> newest_checkpoint(const std::filesystem::path& output_dir);
/// For commands that only read: also checkpoints that recover_interrupted() would restore, in the folders they are in
/// now.
std::vector<Found> readable_checkpoints(const std::filesystem::path& output_dir);
/// `checkpoint` itself, or the folder in which it can be read now, if it is one that recover_interrupted() would
/// restore.
std::filesystem::path readable_folder(const std::filesystem::path& checkpoint);
/// Unpublished saves and unfinished removals.
std::vector<std::filesystem::path> find_unfinished(const std::filesystem::path& output_dir);

/// Which checkpoints rotation keeps.
struct Keep {
  int64_t newest = 0;            // how many of the newest; 0: all
  std::string best_by = "none";  // and, as one of that number, the best by this metric (engine/base/metrics.h), or none
};

/// The one among `checkpoints` that is best by `metric` (engine/base/metrics.h, or none), the older one of equals; null
/// when none has the metric.
const Found* best_checkpoint(const std::vector<Found>& checkpoints, const std::string& metric);
/// The `checkpoints` that `keep` removes. The newest always stays; if only one is to be kept, the best stays as well.
std::vector<Found> checkpoints_to_remove(const std::vector<Found>& checkpoints, const Keep& keep);

/// Atomically makes output_dir/latest a link to `folder`, which is in output_dir. Does nothing if the file system
/// doesn't support links. Errors: MachineError.
void link_latest(const std::filesystem::path& output_dir, const std::filesystem::path& folder);
/// To be called before a run looks for a checkpoint. Restores a published one that was moved away to be replaced, if
/// the process died before it was: for a moment, on file systems that can't exchange two folders, neither has the final
/// name. Also ends moves and removals of single files: Note [File systems that rename no folders]. Errors:
/// MachineError.
void recover_interrupted(const std::filesystem::path& output_dir);
/// Removes the leftovers of killed saves, including unpublished files.
void remove_partial(const std::filesystem::path& output_dir);
/// Removes a checkpoint; an interrupted removal leaves nothing that looks like a checkpoint. Errors: MachineError.
void remove_checkpoint(const std::filesystem::path& folder);
/// Removes what `keep` removes among the checkpoints up to `step`, the newest save. (Later ones are from an abandoned
/// continuation of the run, or damaged and skipped.) Errors: MachineError.
void rotate(const std::filesystem::path& output_dir, const Keep& keep, int64_t step);

}  // namespace trainer::checkpoint
