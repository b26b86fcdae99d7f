// Names, order and rotation of the checkpoints in an output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainer::checkpoint {

struct Found {
  int64_t step;
  std::filesystem::path folder;
};

/// output_dir/checkpoint-<step>.
std::filesystem::path checkpoint_path(const std::filesystem::path& output_dir, int64_t step);
/// Where it grows before it is published: on several machines in a folder of this life of the run only, so that ranks
/// of an earlier life, which a machine that was lost may still run, write nowhere into it.
std::filesystem::path partial_path(const std::filesystem::path& output_dir, int64_t step);

/// Published checkpoints, the oldest first.
std::vector<Found> find_checkpoints(const std::filesystem::path& output_dir);
std::optional<Found> newest_checkpoint(const std::filesystem::path& output_dir);
/// Saves that were begun and are not published, and removals that were not finished.
std::vector<std::filesystem::path> find_unfinished(const std::filesystem::path& output_dir);

/// Which checkpoints rotation keeps.
struct Keep {
  int64_t newest = 0;            // so many; 0: all
  std::string best_by = "none";  // and, as one of them, the best by this: loss or accuracy; none: no matter
};

/// The one among `checkpoints` with the smallest loss or the greatest accuracy, the older of two; null: nothing was
/// measured at any of them. `metric`: loss, accuracy or none.
const Found* best_checkpoint(const std::vector<Found>& checkpoints, const std::string& metric);
/// Which of `checkpoints` `keep` leaves no room for. The newest always has room; where it is the only one to be kept,
/// so has the best besides.
std::vector<Found> superfluous(const std::vector<Found>& checkpoints, const Keep& keep);

/// Makes output_dir/latest a link to `folder`, of output_dir, at once. Nothing where the file system has no links.
/// Errors: MachineError.
void link_latest(const std::filesystem::path& output_dir, const std::filesystem::path& folder);
/// Removes what a killed save left behind, unpublished files too.
void remove_partial(const std::filesystem::path& output_dir);
/// Removes a checkpoint; if it is cut short, none is left that looks whole. Errors: MachineError.
void remove_checkpoint(const std::filesystem::path& folder);
/// Removes what `keep` leaves no room for among the checkpoints up to the newest save, which is that of `step`. (Those
/// beyond it are of another past of the run, or damaged and passed over.) Errors: MachineError.
void rotate(const std::filesystem::path& output_dir, const Keep& keep, int64_t step);

}  // namespace trainer::checkpoint
