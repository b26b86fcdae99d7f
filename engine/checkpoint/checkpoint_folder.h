// Names, order and rotation of the checkpoints in an output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace trainer::checkpoint {

struct Found {
  int64_t step;
  std::filesystem::path folder;
};

/// output_dir/checkpoint-<step>.
std::filesystem::path checkpoint_path(const std::filesystem::path& output_dir, int64_t step);
/// Where it grows before it is published.
std::filesystem::path partial_path(const std::filesystem::path& output_dir, int64_t step);

/// Published checkpoints, the oldest first.
std::vector<Found> find_checkpoints(const std::filesystem::path& output_dir);
std::optional<Found> newest_checkpoint(const std::filesystem::path& output_dir);

/// Removes what a killed save left behind, unpublished files too.
void remove_partial(const std::filesystem::path& output_dir);
/// Keeps the newest `limit` (0: all). Never removes the newest.
void rotate(const std::filesystem::path& output_dir, int64_t limit);

}  // namespace trainer::checkpoint
