// Which machines of a run that share no folder may continue it.
//
// Note [Votes]
// In an elastic run whose machines share no folder, but keep copies of the checkpoints (Note [Replicas]), a majority of
// the machines that trained last decides who continues. Before the ranks of a generation start, its leader proposes it
// under a new leader epoch, and every one of its machines votes for it. A machine votes at most once per epoch, never
// for an epoch below one that it has voted for, and writes each vote to its disk before it sends it. Once all of its
// machines have voted, and its leader has the newest checkpoint that any of them holds, the generation is *agreed*, and
// its ranks start.
//
// The machines of a generation must include a majority of those of the last agreed one, and of each later one for which
// any of them has voted, because that one may have begun without their knowing. Any two such majorities have a machine
// in common, which has voted for the earlier of the two generations, so the later one takes it into account: there is
// one history. Half of the machines are a majority if they include the leader. So a leader that loses one machine of
// two continues, and the other one doesn't; and a leader that loses a majority at once doesn't continue.
//
// A machine that has lost its disk doesn't know what it voted for. It takes part, but counts only once it has voted
// again. A machine 0 without a record may begin a run alone, as if it were new. Should it then hear from a leader
// (Herald), it follows it.
//
// See Note [Succession] for how the machines find each other.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trainer::launch {

/// The machines of a generation.
struct Membership {
  int64_t epoch = 0;  // 0: no generation was agreed yet, and machine 0 may begin alone
  int leader = 0;
  std::map<int, std::string> hosts{{0, ""}};  // where each was reached, by the machine's number

  /// More than half of them are among `machines`, or exactly half with the leader.
  bool has_majority(const std::set<int>& machines) const;
};

/// What a machine remembers. Its promise: it votes only for higher epochs.
struct VoteRecord {
  int64_t promised = 0;
  Membership agreed{};              // the last generation that it knows to have begun
  std::vector<Membership> voted{};  // later ones that it has voted for

  /// It has voted for the generation of this epoch, or a later one has begun.
  bool knows(int64_t epoch) const;
};

/// One line.
std::string to_text(const Membership& membership);
/// A line each.
std::string to_text(const VoteRecord& record);
/// Errors: PeerError.
Membership membership_from(const std::string& text);
VoteRecord vote_record_from(const std::string& text);

/// Why no generation can consist of the machines with these records, by number; "" if one can.
std::string why_no_majority(const std::map<int, VoteRecord>& machines);

/// What a user can do about it, when waiting didn't help.
inline constexpr const char* kAdviceWithoutMajority =
    "\n  if the missing machines are lost for good: remove the file .votes from output_dir on a machine that is left, "
    "and start that one with --node_rank 0; it continues from its newest checkpoint";

}  // namespace trainer::launch
