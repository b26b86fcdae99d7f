#include "engine/checkpoint/checkpoint_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/base/link_protocol.h"
#include "engine/base/metrics.h"
#include "engine/base/publish_folder.h"
#include "engine/checkpoint/contents.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace ops = file_operations;
namespace {

constexpr std::string_view kPrefix = "checkpoint-", kPartialPrefix = ".checkpoint-", kReplacedSuffix = ".partial.old",
                           kRemovedSuffix = ".removing";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

/// The metric recorded in a checkpoint; nothing if there is none or the checkpoint can't be read.
std::optional<double> measured(const Found& checkpoint, const std::string& metric) {
  try {
    const Contents contents = read_contents(checkpoint.folder);
    const auto value = contents.metrics.find("eval_" + metric);
    return value == contents.metrics.end() ? std::nullopt : std::optional(value->second);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void sort_by_step(std::vector<Found>& checkpoints) {
  std::sort(checkpoints.begin(), checkpoints.end(), [](const Found& a, const Found& b) { return a.step < b.step; });
}

/// Published checkpoints that were moved away to be replaced, and weren't: intact, and without one of the final name.
std::vector<Found> find_replaced(const fs::path& output_dir) {
  std::vector<Found> found;
  for (const fs::path& old : find_unfinished(output_dir)) {
    const std::string name = old.filename().string();
    if (!name.ends_with(kReplacedSuffix)) continue;
    const std::optional<int64_t> step = step_of(name.substr(1, name.find('.', 1) - 1));
    std::error_code error;
    if (!step || fs::exists(checkpoint_path(output_dir, *step), error)) continue;
    try {
      read_contents(old);
      found.push_back({*step, old});
    } catch (const Error&) {  // damaged, or recovered meanwhile
    }
  }
  return found;
}

}  // namespace

std::vector<fs::path> entries_of(const fs::path& output_dir) {
  std::vector<fs::path> entries;
  try {
    for (const auto& entry : fs::directory_iterator(output_dir)) entries.push_back(entry.path());
  } catch (const fs::filesystem_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory || error.code() == std::errc::not_a_directory) return {};
    throw machine_error("read", output_dir, error.code().value());
  }
  return entries;
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code error;
  const bool exists = fs::exists(folder / kManifestFile, error);
  if (error && error != std::errc::not_a_directory) throw machine_error("read", folder, error.value());
  return exists;
}

fs::path checkpoint_path(const fs::path& output_dir, int64_t step) {
  return output_dir / (std::string(kPrefix) + std::to_string(step));
}

fs::path partial_path(const fs::path& output_dir, int64_t step, const std::string& owner) {
  const char* const attempt = std::getenv(kAttemptIdVariable);
  const std::string life = attempt != nullptr ? attempt
                           : owner.empty()    ? ""
                                              : fmt::format("{:08x}", crc32c(owner.data(), owner.size()));
  return output_dir / fmt::format("{}{}{}{}.partial", kPartialPrefix, step, life.empty() ? "" : ".", life);
}

std::vector<Found> find_checkpoints(const fs::path& output_dir) {
  std::vector<Found> found;
  for (const fs::path& entry : entries_of(output_dir))
    if (const auto step = step_of(entry.filename().string()); step && is_checkpoint(entry))
      found.push_back({*step, entry});
  sort_by_step(found);
  return found;
}

std::vector<Found> readable_checkpoints(const fs::path& output_dir) {
  std::vector<Found> found = find_checkpoints(output_dir);
  for (Found& one : find_replaced(output_dir)) found.push_back(std::move(one));
  sort_by_step(found);
  return found;
}

fs::path readable_folder(const fs::path& checkpoint) {
  std::error_code error;
  if (fs::exists(checkpoint, error)) return checkpoint;
  const fs::path link = fs::read_symlink(checkpoint, error);  // "latest"
  const fs::path name = (link.empty() ? checkpoint : link).filename();
  for (const Found& one : find_replaced(checkpoint.has_parent_path() ? checkpoint.parent_path() : "."))
    if (name == checkpoint_path("", one.step).filename()) return one.folder;
  return checkpoint;
}

std::optional<Found> newest_checkpoint(const fs::path& output_dir) {
  const auto all = find_checkpoints(output_dir);
  return all.empty() ? std::nullopt : std::optional(all.back());
}

std::vector<fs::path> find_unfinished(const fs::path& output_dir) {
  std::vector<fs::path> found = entries_of(output_dir);
  std::erase_if(found, [](const fs::path& one) { return !one.filename().string().starts_with(kPartialPrefix); });
  std::sort(found.begin(), found.end());
  return found;
}

const Found* best_checkpoint(const std::vector<Found>& checkpoints, const std::string& metric) {
  const Found* best = nullptr;
  double best_value = 0;
  if (metric == "none") return best;
  for (const Found& checkpoint : checkpoints) {
    const auto value = measured(checkpoint, metric);
    if (!value || (best != nullptr && (lower_is_better(metric) ? *value >= best_value : *value <= best_value)))
      continue;
    best = &checkpoint;
    best_value = *value;
  }
  return best;
}

std::vector<Found> checkpoints_to_remove(const std::vector<Found>& checkpoints, const Keep& keep) {
  const auto room = static_cast<size_t>(keep.newest);
  if (keep.newest <= 0 || checkpoints.size() <= room) return {};
  std::vector<Found> old(checkpoints.begin(), checkpoints.end() - static_cast<int64_t>(room));
  const Found* const best = best_checkpoint(checkpoints, keep.best_by);
  const auto is_best = [&](const Found& one) { return best != nullptr && one.step == best->step; };
  const auto kept = std::find_if(old.begin(), old.end(), is_best);
  if (kept == old.end()) return old;
  old.erase(kept);
  if (room > 1) old.push_back(checkpoints[old.size() + 1]);  // the best replaces the oldest of the newest
  return old;
}

void link_latest(const fs::path& output_dir, const fs::path& folder) {
  const fs::path growing = output_dir / fmt::format(".latest.{}.tmp", getpid()), link = output_dir / "latest";
  ops::remove_file(growing);
  if (ops::make_link(folder.filename().string(), growing) != 0) {
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) return;
    throw machine_error("link", link, errno);
  }
  if (ops::rename(growing, link) != 0) throw machine_error("link", link, errno);
}

namespace {

/// Removes an unfinished checkpoint, whose writer may have been frozen and go on: first its name, so that the writer
/// can publish no part of it. On NFS, the folder itself may stay until the writer has closed its files.
void remove_unfinished(const fs::path& folder) {
  fs::path doomed = folder;
  if (!folder.filename().string().ends_with(kRemovedSuffix)) doomed += kRemovedSuffix;
  ops::remove_tree(doomed == folder || rename_folder(folder, doomed) == 0 ? doomed : folder);
}

}  // namespace

void recover_interrupted(const fs::path& output_dir) {
  for (const Found& one : find_replaced(output_dir))
    if (ops::rename(one.folder, checkpoint_path(output_dir, one.step)) != 0)
      throw machine_error("recover", one.folder, errno);
  for (const fs::path& entry : entries_of(output_dir))
    if (step_of(entry.filename().string())) settle_folder(entry, kManifestFile);
}

void remove_partial(const fs::path& output_dir) {
  recover_interrupted(output_dir);
  for (const fs::path& entry : entries_of(output_dir)) {
    const std::string name = entry.filename().string();
    if (name.starts_with(kPartialPrefix)) remove_unfinished(entry);
    if (name.starts_with(".") && name.ends_with(".tmp")) ops::remove_file(entry);  // of publish_file, link_latest
  }
}

void remove_checkpoint(const fs::path& folder) {
  remove_folder(folder, kManifestFile);
}

void rotate(const fs::path& output_dir, const Keep& keep, int64_t step) {
  std::vector<Found> checkpoints = find_checkpoints(output_dir);
  std::erase_if(checkpoints, [&](const Found& one) { return one.step > step; });
  for (const Found& one : checkpoints_to_remove(checkpoints, keep)) remove_checkpoint(one.folder);
}

}  // namespace trainer::checkpoint
