#include "engine/launch/watchdog.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace trainer::launch {
namespace {

constexpr std::chrono::milliseconds kLookEvery{500}, kMeasureEvery{50};
constexpr double kUpdates = 10;     // a rank counts as hung only after the duration of this many updates
constexpr double kInTime = 0.97;    // of the limit, so that a hang is reported within it
constexpr double kMostSeconds = 1;  // counted per look: more pass only when the supervisor itself did not run

bool waits_as_before(const RankState& now, const RankState& before) {
  return now.waits() && now.waits_in == before.waits_in && now.waits_for == before.waits_for;
}

}  // namespace

Watchdog::Watchdog(int first_rank, int ranks, int world_size, const WatchPatience& patience)
    : first_rank_(first_rank),
      world_size_(world_size),
      patience_(patience),
      boards_(ranks),
      states_(static_cast<size_t>(ranks)),
      next_look_(Clock::now() + kLookEvery),
      next_measure_(Clock::now()) {
  for (int r = 0; r < ranks; ++r) states_[static_cast<size_t>(r)].rank = first_rank + r;
}

const RankState* Watchdog::state(int rank) const {
  const int local = rank - first_rank_;
  return local >= 0 && local < static_cast<int>(states_.size()) ? &states_[static_cast<size_t>(local)] : nullptr;
}

void Watchdog::refresh(const std::vector<Subject>& subjects, double seconds) {
  for (size_t r = 0; r < states_.size(); ++r) {
    const RankState before = std::move(states_[r]);
    RankState& now = states_[r] = boards_.read(static_cast<int>(r), before.rank);
    now.pid = subjects.at(r).pid;
    now.running = subjects.at(r).running;
    if (now.running && now.beats == before.beats) now.silent = before.silent + seconds;
    if (now.running && waits_as_before(now, before)) now.waited = before.waited + seconds;
    if (now.running && now.stands_as(before)) now.still = before.still + (now.beats != before.beats ? seconds : 0);
  }
}

void Watchdog::measure_pace() {
  const Clock::time_point now = Clock::now();
  const double passed = last_measure_ ? std::chrono::duration<double>(now - *last_measure_).count() : 0;
  last_measure_ = now;
  const RankState before = std::exchange(measured_, boards_.read(0, first_rank_));
  pace_.see(before, measured_, std::min(passed, kMostSeconds));
  next_measure_ = now + (pace_.median() ? kLookEvery : kMeasureEvery);
}

std::optional<Failure> Watchdog::look(const std::vector<Subject>& subjects) {
  const Clock::time_point now = Clock::now();
  const double passed = last_look_ ? std::chrono::duration<double>(now - *last_look_).count() : 0;
  last_look_ = now;
  next_look_ = now + kLookEvery;
  refresh(subjects, std::min(passed, kMostSeconds));
  if (auto failure = differing(states_)) return failure;
  if (auto failure = frozen(states_, world_size_, patience_.frozen)) return failure;
  if (auto failure = stuck(states_, patience_.stuck)) return failure;
  if (const auto usual = pace_.median())
    if (auto failure = hung(states_, world_size_, kInTime * std::max(patience_.hung, kUpdates * *usual), *usual))
      return failure;
  if (auto failure = late(states_, patience_.late)) return failure;
  auto waiting = late(states_, patience_.tell);
  if (!waiting) waiting = held(states_, patience_.tell);
  if (waiting && !told_)
    notice_ = fmt::format("trainer: {}{}\n", waiting->rank >= 0 ? fmt::format("rank {}: ", waiting->rank) : "",
                          waiting->message);
  told_ = waiting.has_value();
  return std::nullopt;
}

std::string Watchdog::take_notice() {
  return std::exchange(notice_, "");
}

std::string table_of(const RankStates& ranks) {
  std::string text;
  for (const RankState& state : ranks) {
    const std::string seconds = state.waited > 0 ? fmt::format(", for {:.0f} s", state.waited) : "";
    const std::string silent = state.silent > 1 ? fmt::format("; no beat for {:.0f} s", state.silent) : "";
    const std::string held = held_of(state);
    text += fmt::format("  {}: {}{}{}{}\n", name_of(state), state.running ? doing_of(state) : "has ended", seconds,
                        silent, held.empty() ? "" : "; in " + held);
  }
  return text;
}

}  // namespace trainer::launch
