#include "engine/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "engine/base/files.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "checkpoint-", kPartialPrefix = ".checkpoint-";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

/// Renamed first: a removal that is cut short leaves no checkpoint that looks whole.
void remove_folder(const fs::path& folder) {
  const fs::path doomed = folder.parent_path() / ("." + folder.filename().string() + ".removing");
  std::error_code error;
  fs::rename(folder, doomed, error);
  if (!error) fs::remove_all(doomed, error);
  if (error) throw machine_error("remove", folder, error.value());
}

}  // namespace

fs::path checkpoint_path(const fs::path& output_dir, int64_t step) {
  return output_dir / (std::string(kPrefix) + std::to_string(step));
}

fs::path partial_path(const fs::path& output_dir, int64_t step) {
  return output_dir / (std::string(kPartialPrefix) + std::to_string(step) + ".partial");
}

std::vector<Found> find_checkpoints(const fs::path& output_dir) {
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(output_dir, error))
    if (const auto step = step_of(entry.path().filename().string()); step && fs::exists(entry.path() / "manifest.json"))
      found.push_back({*step, entry.path()});
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.step < b.step; });
  return found;
}

std::optional<Found> newest_checkpoint(const fs::path& output_dir) {
  const auto all = find_checkpoints(output_dir);
  return all.empty() ? std::nullopt : std::optional(all.back());
}

void remove_partial(const fs::path& output_dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(output_dir, error)) {
    const std::string name = entry.path().filename().string();
    const bool unpublished = name.starts_with(".") && name.ends_with(".tmp");  // of publish_file
    if (unpublished || name.starts_with(kPartialPrefix)) fs::remove_all(entry.path(), error);
  }
}

void rotate(const fs::path& output_dir, int64_t limit) {
  if (limit <= 0) return;
  const auto all = find_checkpoints(output_dir);
  for (size_t i = 0; i + static_cast<size_t>(limit) < all.size(); ++i) remove_folder(all[i].folder);
}

}  // namespace trainer::checkpoint
