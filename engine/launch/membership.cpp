#include "engine/launch/membership.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"

namespace trainer::launch {
namespace {

constexpr int kMostMachines = 1 << 20;
constexpr std::size_t kMostVotes = 1000;  // that may be open

std::string missing_majority(const Membership& membership, const std::set<int>& present) {
  std::vector<int> all, here;
  for (const auto& [machine, host] : membership.hosts) {
    all.push_back(machine);
    if (present.contains(machine)) here.push_back(machine);
  }
  return fmt::format(
      "machines {} trained last (leader epoch {}), and no majority of them is connected: {} of {}{}",
      fmt::join(all, ", "), membership.epoch, here.size(), all.size(),
      2 * here.size() == all.size()
          ? fmt::format("; half of them are a majority only with machine {}, the leader", membership.leader)
          : "");
}

}  // namespace

bool Membership::has_majority(const std::set<int>& machines) const {
  const auto here =
      std::count_if(hosts.begin(), hosts.end(), [&](const auto& one) { return machines.contains(one.first); });
  return 2 * here > std::ssize(hosts) || (2 * here == std::ssize(hosts) && machines.contains(leader));
}

bool VoteRecord::knows(int64_t epoch) const {
  return agreed.epoch >= epoch ||
         std::any_of(voted.begin(), voted.end(), [&](const Membership& one) { return one.epoch == epoch; });
}

std::string to_text(const Membership& membership) {
  std::string text = fmt::format("{} {}", membership.epoch, membership.leader);
  for (const auto& [machine, host] : membership.hosts) text += fmt::format(" {}={}", machine, host);
  return text;
}

std::string to_text(const VoteRecord& record) {
  std::string text = fmt::format("{}\n{}\n", record.promised, to_text(record.agreed));
  for (const Membership& one : record.voted) text += to_text(one) + "\n";
  return text;
}

Membership membership_from(const std::string& text) {
  std::istringstream words(text);
  Membership membership;
  membership.hosts.clear();
  words >> membership.epoch >> membership.leader;
  bool valid = static_cast<bool>(words) && membership.epoch >= 0 && membership.epoch < kMostEpochs;
  int machine = 0;
  char equals = 0;
  while (valid && words >> machine) {
    std::string host;
    words.get(equals);
    if (words.peek() != ' ' && words.peek() != std::istringstream::traits_type::eof()) words >> host;
    valid = equals == '=' && machine >= 0 && machine < kMostMachines && membership.hosts.emplace(machine, host).second;
  }
  if (!valid || !words.eof() || !membership.hosts.contains(membership.leader))
    throw PeerError("malformed message: '{}' are not the machines of a generation", text.substr(0, 100));
  return membership;
}

VoteRecord vote_record_from(const std::string& text) {
  std::istringstream lines(text);
  VoteRecord record;
  std::string line;
  lines >> record.promised;
  if (!lines || record.promised < 0 || record.promised >= kMostEpochs || !std::getline(lines, line) || !line.empty())
    throw PeerError("malformed message: no record of votes");
  std::getline(lines, line);
  record.agreed = membership_from(line);
  while (std::getline(lines, line) && record.voted.size() < kMostVotes) record.voted.push_back(membership_from(line));
  return record;
}

std::string why_no_majority(const std::map<int, VoteRecord>& machines) {
  const auto newest = std::max_element(machines.begin(), machines.end(), [](const auto& a, const auto& b) {
    return a.second.agreed.epoch < b.second.agreed.epoch;
  });
  if (newest == machines.end()) return "no machine is connected";
  const Membership& last = newest->second.agreed;
  std::set<int> here, remember;
  for (const auto& [machine, record] : machines) {
    here.insert(machine);
    if (record.knows(last.epoch)) remember.insert(machine);
  }
  if (!last.has_majority(remember)) return missing_majority(last, remember);
  for (const auto& [machine, record] : machines)
    for (const Membership& one : record.voted)
      if (one.epoch > last.epoch && !one.has_majority(here)) return missing_majority(one, here);
  return "";
}

}  // namespace trainer::launch
