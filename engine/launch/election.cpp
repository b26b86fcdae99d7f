#include "engine/launch/election.h"

#include <set>

#include <fmt/format.h>

#include "engine/launch/agreement.h"

namespace trainer::launch {

Election::Election(const Appointment& appointment, Introduction& own)
    : appointment_(appointment), own_(own), votes_(appointment.folder) {
  own_.votes = votes_.shown();
  if (!has_taken_part()) return;
  address_ = votes_.record().agreed.hosts.at(own_.machine);
  own_.epoch = votes_.record().agreed.epoch;
  turn_ = Clock::now() + appointment_.silence;
}

bool Election::has_taken_part() const {
  const Membership& agreed = votes_.record().agreed;
  return agreed.epoch > 0 && agreed.hosts.contains(own_.machine);
}

void Election::note_end(bool has_died) {
  turn_ = Clock::now() + (has_died ? std::chrono::milliseconds(0) : appointment_.silence);
  own_.candidates_below = 0;
}

void Election::step_down(std::optional<LeaderPlace> leader) {
  leader_ = std::move(leader);
  own_.epoch = votes_.record().agreed.epoch;
  turn_ = Clock::now();
}

std::vector<LeaderPlace> Election::places() const {
  std::vector<LeaderPlace> places;
  std::set<int> known{own_.machine};
  const auto add = [&](int machine, const std::string& host) {
    if (known.insert(machine).second) places.push_back({.machine = machine, .host = host, .port = appointment_.port});
  };
  if (leader_) places.push_back(*leader_);
  const VoteRecord& record = votes_.record();
  add(record.agreed.leader, record.agreed.hosts.at(record.agreed.leader));
  for (const auto& [machine, host] : record.agreed.hosts) add(machine, host);
  for (const Membership& one : record.voted)
    for (const auto& [machine, host] : one.hosts) add(machine, host);
  return places;
}

void Election::update(bool listens) {
  own_.votes = votes_.shown();
  own_.candidates_below = !is_turn() ? 0 : listens ? own_.machine : INT_MAX;
}

std::string Election::why_not() const {
  if (is_excluded_) return "this machine cannot lead";
  if (address_.empty()) return "this machine has not taken part in an attempt";
  const Membership& agreed = votes_.record().agreed;
  std::set<int> left;
  for (const auto& [machine, host] : agreed.hosts)
    if (machine != agreed.leader) left.insert(machine);
  if (own_.machine == agreed.leader || agreed.has_majority(left)) return "";
  return fmt::format("of the {} machines that trained last, {} without machine {} {} no majority", agreed.hosts.size(),
                     left.size(), agreed.leader, left.size() == 1 ? "is" : "are");
}

Membership Election::vote(Leadership* leads, Machines& machines, SignalQueue& signals) {
  return leads != nullptr ? propose(votes_, own_.machine, *leads, machines, signals)
                          : launch::vote(votes_, own_.machine, machines, signals);
}

void Election::agree(const Membership& next, bool is_leader, Machines& machines, SignalQueue& signals) {
  launch::agree(votes_, next, is_leader, machines, signals);
  own_.votes = votes_.shown();
  leader_.reset();
}

}  // namespace trainer::launch
