#include "engine/launch/verdict.h"

#include <algorithm>
#include <array>
#include <map>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::launch {
namespace {

constexpr size_t kMostRanksTold = 3;
constexpr double kPatienceForAMajority = 2;  // seconds

Failure failure_of(const RankState& state, int code, std::string message) {
  return {.rank = state.rank, .step = state.step, .phase = state.phase, .code = code, .message = std::move(message)};
}

/// The calls of each number of a group, by rank.
using Calls = std::map<uint64_t, std::map<int, const Collective*>>;  // by number, then by index of the rank

Calls calls_of(const RankStates& ranks, const GroupState& group) {
  Calls calls;
  for (size_t r = 0; r < ranks.size(); ++r)
    if (const GroupState* const state = ranks[r].find(group))
      for (const Collective& call : state->recent) calls[call.number][static_cast<int>(r)] = &call;
  return calls;
}

bool is_same_call(const Collective& a, const Collective& b) {
  const bool same_what = a.kind == CollectiveKind::kTransfer || a.what.view() == b.what.view();
  return a.kind == b.kind && a.elements == b.elements && a.dtype.view() == b.dtype.view() && same_what;
}

/// Two of these calls with different signatures, the first by more ranks than the second if there is a majority.
std::optional<std::array<int, 2>> two_that_differ(const std::map<int, const Collective*>& calls) {
  std::map<uint64_t, std::vector<int>> callers;
  for (const auto& [rank, call] : calls) callers[call->signature].push_back(rank);
  if (callers.size() < 2) return std::nullopt;
  const auto fewer = [](const auto& a, const auto& b) {
    return std::pair(a.second.size(), -a.second.front()) < std::pair(b.second.size(), -b.second.front());
  };
  const auto most = std::max_element(callers.begin(), callers.end(), fewer);
  const auto least = std::min_element(callers.begin(), callers.end(), fewer);
  return std::array{most->second.front(), least->second.front()};
}

/// Whether the two ranks that made this call wait in it, and a third one may still show which of them is wrong.
bool may_get_a_majority(const RankStates& ranks, const GroupState& group, uint64_t number,
                        const std::map<int, const Collective*>& callers) {
  const auto waits_briefly = [&](const auto& caller) {
    const RankState& state = ranks[static_cast<size_t>(caller.first)];
    return state.running && state.waits() && state.wait_group().is_same_group(group) && state.waits_for == number &&
           state.waited < kPatienceForAMajority;
  };
  const auto is_on_its_way = [&](const RankState& state) {
    const GroupState* const its = state.find(group);
    return state.running && group.group.has_member(state.rank) && (its == nullptr || its->last < number);
  };
  return callers.size() == 2 && std::all_of(callers.begin(), callers.end(), waits_briefly) &&
         std::any_of(ranks.begin(), ranks.end(), is_on_its_way);
}

std::optional<Failure> differing_in(const RankStates& ranks, const GroupState& group) {
  const Calls calls = calls_of(ranks, group);
  std::optional<Failure> failure;
  for (const auto& [number, callers] : calls) {
    const auto two = two_that_differ(callers);
    if (!two || may_get_a_majority(ranks, group, number, callers)) continue;
    const RankState &first = ranks[static_cast<size_t>((*two)[0])], &second = ranks[static_cast<size_t>((*two)[1])];
    const Collective &its = *callers.at((*two)[0]), &others = *callers.at((*two)[1]);
    const bool told_apart = !is_same_call(its, others);
    failure = failure_of(second, kInternalFailure,
                         fmt::format("{} and {} called different collectives{}\n  {}: {}\n  {}: {}",
                                     text_of({std::min(first.rank, second.rank)}), std::max(first.rank, second.rank),
                                     told_apart ? "" : ", before these", name_of(first), text_of(its, group),
                                     name_of(second), text_of(others, group)));
    failure->message.replace(0, 5, "ranks ");
    if (callers.size() == 2) failure->rank = -1;  // either rank may be the wrong one
    if (told_apart) break;
  }
  return failure;
}

/// The process state in /proc: 'T' stopped, 't' stopped by a debugger, 'D' in uninterruptible sleep.
char process_letter(pid_t pid) {
  const std::string text = first_line(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() ? text[name_end + 2] : '?';
}

std::string held_line(const RankState& state) {
  const std::string held = held_of(state);
  return held.empty() ? "" : fmt::format("\n  it is in {}: a disk, a file server or a device does not respond", held);
}

const char* reason_of(char letter) {
  switch (letter) {
    case 'T':
      return "it was stopped by a signal (SIGSTOP); `kill -CONT` in time would have let it continue";
    case 'D':
      return "it is blocked in the kernel: its machine swaps, or a disk or a network folder does not respond";
    default:
      return "its machine swaps, or its container is paused";
  }
}

/// Indices of members on this machine that have not entered the collective in which `waiting` waits.
std::vector<size_t> missing_for(const RankStates& ranks, const RankState& waiting) {
  std::vector<size_t> missing;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!waiting.wait_group().group.has_member(ranks[r].rank)) continue;
    const GroupState* const its = ranks[r].find(waiting.wait_group());
    if (its == nullptr || its->last < waiting.waits_for) missing.push_back(r);
  }
  return missing;
}

bool is_with(const RankState& a, const RankState& b) {
  return a.waits() && b.waits() && a.waits_for == b.waits_for && a.wait_group().is_same_group(b.wait_group());
}

/// "ranks 0 and 2 wait in …": the ranks that wait in the same call as `first`.
std::string waiting_line(const RankStates& ranks, const RankState& first) {
  std::vector<int> with;
  for (const RankState& state : ranks)
    if (is_with(state, first)) with.push_back(state.rank);
  return fmt::format("\n  {} {} in {}", text_of(with), with.size() == 1 ? "waits" : "wait", collective_of(first));
}

}  // namespace

std::optional<Failure> differing(const RankStates& ranks) {
  for (const RankState& state : ranks)
    for (const GroupState& group : state.groups)
      if (auto failure = differing_in(ranks, group)) return failure;
  return std::nullopt;
}

bool will_differ(const RankStates& ranks) {
  for (const RankState& state : ranks)
    for (const GroupState& group : state.groups)
      for (const auto& [number, callers] : calls_of(ranks, group))
        if (two_that_differ(callers) && may_get_a_majority(ranks, group, number, callers)) return true;
  return false;
}

std::optional<Failure> frozen(const RankStates& ranks, int world_size, double seconds) {
  const auto stands = [&](const RankState& state) {
    return state.running && state.beats > 0 && state.silent >= seconds && process_letter(state.pid) != 't';
  };
  const auto found = std::find_if(ranks.begin(), ranks.end(), stands);
  if (found == ranks.end()) return std::nullopt;
  const bool others_run =
      static_cast<int>(ranks.size()) < world_size ||
      std::any_of(ranks.begin(), ranks.end(), [&](const RankState& s) { return s.running && s.silent < seconds / 2; });
  if (!others_run) return std::nullopt;  // all of them were paused
  std::string message = fmt::format("its process has not run for {:.0f} s\n  {}\n  it {}", found->silent,
                                    reason_of(process_letter(found->pid)), doing_of(*found));
  const auto waiting =
      std::find_if(ranks.begin(), ranks.end(), [&](const RankState& s) { return s.waits() && s.rank != found->rank; });
  if (waiting != ranks.end()) message += waiting_line(ranks, *waiting);
  return failure_of(*found, kPeerFailure, message);
}

std::optional<Failure> stuck(const RankStates& ranks, double seconds) {
  std::vector<const RankState*> waiting;
  for (const RankState& state : ranks) {
    if (!state.running) continue;
    if (!state.waits() || state.waited < seconds || missing_for(ranks, state).empty()) return std::nullopt;
    waiting.push_back(&state);
  }
  if (waiting.empty()) return std::nullopt;
  std::string message = "the ranks wait for each other, and none can continue";
  std::vector<const RankState*> told;
  for (const RankState* state : waiting) {
    if (std::any_of(told.begin(), told.end(), [&](const RankState* t) { return is_with(*t, *state); })) continue;
    if (told.size() == kMostRanksTold) break;
    told.push_back(state);
    message += waiting_line(ranks, *state);
  }
  Failure failure = failure_of(*waiting.front(), kInternalFailure, message);
  failure.rank = -1;
  return failure;
}

std::optional<Failure> hung(const RankStates& ranks, int world_size, double seconds, double usual) {
  const auto stands = [&](const RankState& state) {
    return state.running && state.updates() && state.still >= seconds;
  };
  // A file server that doesn't respond, where weights or samples are mapped from, holds a rank within an update; the
  // longer limit of late() is for it.
  if (std::any_of(ranks.begin(), ranks.end(), [&](const RankState& s) { return stands(s) && !held_of(s).empty(); }))
    return std::nullopt;
  const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const RankState& state) {
    return stands(state) && !state.waits() && !state.hides_waits;
  });
  const bool all_stand =
      static_cast<int>(ranks.size()) == world_size && std::all_of(ranks.begin(), ranks.end(), stands);
  if (found == ranks.end() && !all_stand) return std::nullopt;
  const RankState& one = found != ranks.end() ? *found : ranks.front();
  std::string message =
      fmt::format("{}: no progress for {:.0f} s, and an update usually takes {:.{}f} s\n  {} {}",
                  found != ranks.end() ? "it hangs" : "the ranks hang", one.still, usual, usual < 1 ? 3 : 0,
                  found != ranks.end() ? "it" : text_of({one.rank}), doing_of(one));
  const auto waiting =
      std::find_if(ranks.begin(), ranks.end(), [&](const RankState& s) { return s.waits() && s.rank != one.rank; });
  if (waiting != ranks.end()) message += waiting_line(ranks, *waiting);
  message += "\n  if an update may take this long, raise training.ddp_timeout: a sixtieth of it is the limit";
  Failure failure = failure_of(one, kPeerFailure, message);
  if (found == ranks.end()) failure.rank = -1;
  return failure;
}

std::optional<Failure> late(const RankStates& ranks, double seconds) {
  for (const RankState& state : ranks) {
    if (!state.running || !state.waits() || state.waited < seconds) continue;
    const std::vector<size_t> missing = missing_for(ranks, state);
    const std::string wait = waiting_line(ranks, state);
    if (missing.empty()) {
      Failure failure =
          failure_of(state, kPeerFailure,
                     fmt::format("a collective has not finished for {:.0f} s{}\n  all ranks of this "
                                 "machine have entered it: check the other machines' ranks, and the network",
                                 state.waited, wait));
      failure.rank = -1;
      return failure;
    }
    const RankState& culprit = ranks[missing.front()];
    if (culprit.waits() && culprit.waited < state.waited) continue;  // it waits for another rank itself, less long
    return failure_of(culprit, kPeerFailure,
                      fmt::format("others have waited for it for {:.0f} s\n  it {}{}{}", state.waited,
                                  culprit.running ? doing_of(culprit) : "has ended", held_line(culprit), wait));
  }
  return std::nullopt;
}

std::optional<Failure> held(const RankStates& ranks, double seconds) {
  for (const RankState& state : ranks)
    if (const std::string line = state.still >= seconds ? held_line(state) : ""; !line.empty())
      return failure_of(state, kPeerFailure, fmt::format("no progress for {:.0f} s{}", state.still, line));
  return std::nullopt;
}

}  // namespace trainer::launch
