#include "engine/launch/outcome.h"

#include <unistd.h>

#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/host_name.h"
#include "engine/base/safe_text.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/launch/failure.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLines = 6;
constexpr size_t kMostLineLength = 400;

/// The lines of a text without empty ones, at most `most`: the first ones, and the last, which says what to do.
std::vector<std::string> lines_of(std::string_view text, size_t most) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.emplace_back(line.substr(0, kMostLineLength));
    if (lines.size() > most) lines.erase(lines.end() - 2);
  }
  return lines;
}

std::string where(const Outcome& outcome) {
  std::string text = "trainer: ";
  if (outcome.rank >= 0) text += fmt::format("rank {}, ", outcome.rank);
  if (!outcome.machine.empty()) text.replace(text.size() - 2, 2, fmt::format(" on {}, ", outcome.machine));
  if (outcome.step >= 0) {
    text += fmt::format("step {}, ", outcome.step);
    if (!outcome.phase.empty()) text.replace(text.size() - 2, 2, fmt::format(" ({}), ", outcome.phase));
  } else if (outcome.rank >= 0) {
    text += "before the first step, ";
  }
  if (text.ends_with(", ")) text.replace(text.size() - 2, 2, ": ");
  return text;
}

std::string kept_line(int code, const Kept& kept, const std::string& output_dir) {
  if (kept.wrote_nothing) return "  kept: nothing was written to " + output_dir;
  if (!kept.unreadable.empty()) return "  kept: not known: " + kept.unreadable.substr(0, kept.unreadable.find('\n'));
  if (kept.elsewhere) return "  kept: the leader's checkpoints; see its message";
  if (kept.checkpoint.empty()) return "  kept: no checkpoint yet in " + output_dir;
  if (code == kUsageFailure || code == kInputFailure) return "  kept: " + kept.checkpoint;  // the cause must be fixed
  return fmt::format("  kept: {}; {}", kept.checkpoint,
                     kept.resumes ? "the same command resumes from it"
                                  : "set checkpoint.resume_from_checkpoint: auto to resume from it");
}

nlohmann::ordered_json to_json(const RankState& state) {
  nlohmann::ordered_json json;
  json["rank"] = state.rank;
  json["step"] = state.step >= 0 ? nlohmann::ordered_json(state.step) : nlohmann::ordered_json();
  json["phase"] = state.phase;
  json["unit"] = unit_of(state);
  json["collective"] = collective_of(state);
  json["waits"] = state.waits();
  json["seconds_waited"] = state.waited;
  json["seconds_without_beat"] = state.silent;
  return json;
}

std::string cause_name(int code) {
  switch (code) {
    case kDone:
      return "done";
    case kInternalFailure:
      return "internal";
    case kUsageFailure:
      return "configuration";
    case kInputFailure:
      return "input";
    case kMachineFailure:
      return "machine";
    case kNumericFailure:
      return "numeric";
    case kPeerFailure:
      return "peer";
    case kGaveUp:
      return "gave_up";
    case kInterrupted:
      return "interrupted";
    case kStopRequested:
      return "stop_requested";
    default:
      return "killed_by_" + signal_name(code - 128);
  }
}

}  // namespace

std::string newest_checkpoint(const fs::path& output_dir) {
  const auto newest = checkpoint::newest_checkpoint(output_dir);
  return newest ? newest->folder.string() : "";
}

std::string closing_line(const Outcome& outcome) {
  return where(outcome) + outcome.message.substr(0, outcome.message.find('\n')) + "\n";
}

std::string closing_block(const Outcome& outcome, const Kept& kept, const std::string& output_dir) {
  if (outcome.code == kDone) return "";
  const bool is_bug = outcome.code == kInternalFailure;
  std::vector<std::string> lines = lines_of(outcome.message, kMostLines - (is_bug ? 2 : 1));
  if (lines.empty()) lines.emplace_back("failed without a message");
  std::string block = where(outcome) + lines.front() + "\n";
  for (size_t i = 1; i < lines.size(); ++i) {
    if (!lines[i].starts_with(' ')) block += "  ";
    block += lines[i] + "\n";
  }
  if (is_bug) block += "  this is a bug in trainer; please report it with " + output_dir + "/logs\n";
  return kept.temporary ? block : block + kept_line(outcome.code, kept, output_dir) + "\n";
}

void write_outcome(const Outcome& outcome, const Kept& kept, const fs::path& output_dir) {
  nlohmann::ordered_json json;
  json["code"] = outcome.code;
  json["cause"] = cause_name(outcome.code);
  json["message"] = without_secrets(outcome.message);
  json["host"] = host_name();
  json["rank"] = outcome.rank >= 0 ? nlohmann::ordered_json(outcome.rank) : nlohmann::ordered_json();
  if (!outcome.machine.empty()) json["machine"] = outcome.machine;
  json["step"] = outcome.step >= 0 ? nlohmann::ordered_json(outcome.step) : nlohmann::ordered_json();
  json["checkpoint"] = kept.checkpoint.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(kept.checkpoint);
  if (outcome.restarts > 0) json["restarts"] = outcome.restarts;
  if (!kept.replicated.empty()) json["replicated_checkpoint"] = kept.replicated;
  if (kept.leader_epoch > 0) json["leader_epoch"] = kept.leader_epoch;
  json["retryable"] = outcome.code == kPeerFailure || (outcome.code > 128 && outcome.code != kInterrupted);
  for (const RankState& state : outcome.ranks)
    if (state.beats > 0) json["ranks"].push_back(to_json(state));
  // A message may quote a damaged file: invalid UTF-8 is replaced.
  publish_file(output_dir / "outcome.json",
               json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace trainer::launch
