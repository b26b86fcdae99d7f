#include "engine/launch/rank_state.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "engine/launch/held_process.h"

namespace trainer::launch {
namespace {

const char* verb_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kMeeting:
      return "rendezvous";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kSum:
      return "all-reduce (sum)";
    case CollectiveKind::kMax:
      return "all-reduce (max)";
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kSharedMemory:
      return "shared memory";
    case CollectiveKind::kTransfer:
      return "transfer";
  }
  return "collective";
}

bool is_in_flight(const GroupState& group) {
  return group.done < group.last;
}

/// The call a rank waits in, else one that has not returned, else the last call of the group with the most calls.
std::pair<const GroupState*, const Collective*> latest_of(const RankState& state) {
  if (const Collective* const call = state.wait_call()) return {&state.wait_group(), call};
  const GroupState* best = nullptr;
  for (const GroupState& group : state.groups) {
    if (group.recent.empty()) continue;
    const auto worth = [](const GroupState& g) { return std::pair(is_in_flight(g), g.last); };
    if (best == nullptr || worth(group) > worth(*best)) best = &group;
  }
  return {best, best == nullptr ? nullptr : &best->recent.back()};
}

}  // namespace

const Collective* GroupState::call(uint64_t number) const {
  const auto found =
      std::find_if(recent.begin(), recent.end(), [&](const auto& call) { return call.number == number; });
  return found == recent.end() ? nullptr : &*found;
}

bool RankState::stands_as(const RankState& before) const {
  const auto same = [](const GroupState& a, const GroupState& b) { return a.last == b.last && a.done == b.done; };
  return step == before.step && phase == before.phase && waits_in == before.waits_in && waits_for == before.waits_for &&
         std::equal(groups.begin(), groups.end(), before.groups.begin(), before.groups.end(), same);
}

const GroupState* RankState::find(const GroupState& group) const {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.is_same_group(group); });
  return found == groups.end() ? nullptr : &*found;
}

std::string text_of(const Collective& call, const GroupState& group) {
  std::string text = fmt::format("{} {}", verb_of(call.kind), call.number);
  if (!call.dtype.view().empty()) text += fmt::format(" of {} {}", call.elements, call.dtype.view());
  text += fmt::format(" {}", group.group.name.view());
  return call.what.view().empty() ? text : fmt::format("{} ({})", text, call.what.view());
}

std::string collective_of(const RankState& state) {
  const auto [group, call] = latest_of(state);
  return call == nullptr ? "" : text_of(*call, *group);
}

std::string unit_of(const RankState& state) {
  const Collective* const call = latest_of(state).second;
  return call == nullptr ? "" : std::string(call->what.view());
}

std::string name_of(const RankState& state) {
  if (state.beats == 0) return fmt::format("rank {} (starting)", state.rank);
  const std::string phase = state.phase.empty() ? "" : (state.step < 0 ? "" : ", ") + state.phase;
  const std::string step = state.step < 0 ? "" : fmt::format("step {}", state.step);
  return step.empty() && phase.empty() ? fmt::format("rank {}", state.rank)
                                       : fmt::format("rank {} ({}{})", state.rank, step, phase);
}

std::string doing_of(const RankState& state, Tense tense) {
  const bool past = tense == Tense::kPast;
  const std::string collective = collective_of(state);
  if (state.waits()) return (past ? "was waiting in " : "waits in ") + collective;
  if (collective.empty()) return fmt::format("{} called no collective yet", past ? "had" : "has");
  const bool in_flight = std::any_of(state.groups.begin(), state.groups.end(), is_in_flight);
  return fmt::format("{} {} {}", past ? "was computing" : "computes", in_flight ? "during" : "after", collective);
}

std::string held_of(const RankState& state) {
  return state.running && state.pid > 0 ? uninterruptible(state.pid) : "";
}

std::string text_of(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() > kMost) return fmt::format("{} ranks ({}, {}, …)", ranks.size(), ranks[0], ranks[1]);
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back());
}

}  // namespace trainer::launch
