#include "engine/cli/replay_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"

namespace trainer::cli {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr size_t kShownDifferences = 5;
/// The fields of a record that depend only on the run, not on the machine's speed and memory.
constexpr const char* kCompared[] = {"loss",         "loss_text",  "grad_norm",       "grad_norm_text", "learning_rate",
                                     "order_digest", "loss_scale", "skipped_updates", "diverged",       "tokens"};

/// The records of updates, by step; evaluation lines are left out.
std::map<int64_t, json> records_of(const fs::path& folder, Steps steps) {
  std::map<int64_t, json> records;
  std::istringstream lines(read_file(folder / "metrics.jsonl", std::numeric_limits<int64_t>::max()));
  for (std::string line; std::getline(lines, line);) {
    json record = bounded_json_or_none(line);
    if (!record.is_object() || !record.contains("order_digest") || !record.contains("step") ||
        !record["step"].is_number_integer())
      continue;
    const int64_t step = record.at("step").get<int64_t>();
    if (step >= steps.first && step <= steps.last) records[step] = std::move(record);
  }
  return records;
}

std::string shown(const json& record, const char* name) {
  return record.contains(name) ? record.at(name).dump() : "missing";
}

std::string difference(int64_t step, const json& before, const json& now) {
  std::vector<std::string> parts;
  for (const char* const name : kCompared)
    if (shown(before, name) != shown(now, name))
      parts.push_back(fmt::format("{} was {} and is {}", name, shown(before, name), shown(now, name)));
  return parts.empty() ? "" : fmt::format("update {}: {}", step, fmt::join(parts, "; "));
}

/// Counts comparisons and collects the differences as text.
struct Comparison {
  int64_t compared = 0;
  std::vector<std::string> differences{};

  void add(const std::string& difference) {
    ++compared;
    if (!difference.empty()) differences.push_back(difference);
  }
};

Comparison compare_records(const fs::path& run, const fs::path& again, Steps steps) {
  Comparison comparison;
  const auto before = records_of(run, steps), now = records_of(again, steps);
  for (const auto& [step, record] : before) {
    const auto its = now.find(step);
    comparison.add(its == now.end() ? fmt::format("update {} was recorded, but was not repeated", step)
                                    : difference(step, record, its->second));
  }
  return comparison;
}

/// "" when the files that hold tensors are the same, byte for byte.
std::string difference(const checkpoint::Contents& before, const checkpoint::Contents& now, const std::string& name) {
  std::map<std::string, std::string> digests;
  for (const checkpoint::StoredFile& file : now.files) digests[file.name] = file.digest;
  for (const checkpoint::StoredFile& file : before.files)
    if (file.name.ends_with(".safetensors") && digests[file.name] != file.digest)
      return fmt::format("{}: {} is not the same", name, file.name);
  return "";
}

Comparison compare_checkpoints(const fs::path& run, const fs::path& again, Steps steps) {
  Comparison comparison;
  for (const checkpoint::Found& one : checkpoint::find_checkpoints(again)) {
    const fs::path other = run / one.folder.filename();
    if (one.step < steps.first || !checkpoint::is_checkpoint(other)) continue;
    comparison.add(difference(checkpoint::read_contents(other), checkpoint::read_contents(one.folder),
                              one.folder.filename().string()));
  }
  return comparison;
}

/// The conditions under which `again` ran differently, one per line.
std::string other_conditions(const fs::path& run, const fs::path& again) {
  const auto before = checkpoint::newest_checkpoint(run), now = checkpoint::newest_checkpoint(again);
  if (!before || !now) return "";
  std::string text;
  const auto theirs = checkpoint::read_contents(now->folder).conditions;
  for (const auto& [name, value] : checkpoint::read_contents(before->folder).conditions)
    if (const auto its = theirs.find(name); its != theirs.end() && its->second != value)
      text += fmt::format("  {} was {} and is now {}\n", name, value, its->second);
  return text;
}

std::string line_of(const char* what, const Comparison& comparison) {
  if (comparison.compared == 0) return fmt::format("  {:<12} none to compare\n", what);
  if (comparison.differences.empty())
    return fmt::format("  {:<12} {} compared: all equal, bit for bit\n", what, comparison.compared);
  std::string text =
      fmt::format("  {:<12} {} compared: {} differ\n", what, comparison.compared, comparison.differences.size());
  for (size_t i = 0; i < std::min(kShownDifferences, comparison.differences.size()); ++i)
    text += "    " + comparison.differences[i] + "\n";
  return text;
}

}  // namespace

ReplayReport compare_runs(const fs::path& run, const fs::path& again, Steps steps) {
  const Comparison records = compare_records(run, again, steps);
  const Comparison checkpoints = compare_checkpoints(run, again, steps);
  ReplayReport report;
  report.equal = records.differences.empty() && checkpoints.differences.empty();
  report.text = line_of("records", records) + line_of("checkpoints", checkpoints);
  if (!report.equal) report.text += other_conditions(run, again);
  return report;
}

}  // namespace trainer::cli
