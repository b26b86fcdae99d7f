#include "engine/launch/agreement.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/launch/address.h"
#include "engine/launch/joint.h"

namespace trainer::launch {
namespace {

const std::string& text_of(const LinkMessage& message) {
  if (message.strings.size() != 1) throw PeerError("malformed message: no record of votes");
  return message.strings.front();
}

}  // namespace

Membership propose(Votes& votes, int machine, Leadership& leads, Machines& machines, SignalQueue& signals) {
  std::map<int, VoteRecord> records{{machine, votes.shown()}};
  Membership next{.leader = machine, .hosts = {{machine, machines.own_address()}}};
  const std::vector<LinkMessage> shown = collect(LinkOp::kVotes, machines, signals);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    records[shown[i].code] = vote_record_from(text_of(shown[i]));
    next.hosts[shown[i].code] = other_address(machines.others()[i].line.fd()).host();
  }
  if (const std::string why = why_no_majority(records); !why.empty()) throw PeerError("{}", why);
  int64_t promised = 0;
  for (const auto& [number, record] : records) promised = std::max(promised, record.promised);
  leads.raise_epoch(promised);
  next.epoch = leads.epoch();
  require(votes.vote(next), "epoch {} isn't higher than all promises", next.epoch);
  machines.send_all({.op = LinkOp::kPropose, .strings = {to_text(next)}});
  for (const LinkMessage& vote : collect(LinkOp::kVote, machines, signals))
    if (vote.code != 0)
      throw PeerError("a machine did not vote for leader epoch {}: it has promised not to", next.epoch);
  return next;
}

Membership vote(Votes& votes, int machine, Machines& machines, SignalQueue& signals) {
  machines.send(0, {.op = LinkOp::kVotes, .code = machine, .strings = {to_text(votes.shown())}});
  Membership next = membership_from(text_of(hear_host({LinkOp::kPropose}, machines, signals)));
  const bool votes_for_it = next.hosts.contains(machine) && votes.vote(next);
  machines.send(0, {.op = LinkOp::kVote, .code = votes_for_it ? 0 : 1});
  if (!votes_for_it)
    throw PeerError("leader epoch {} was proposed, but this machine has promised not to vote for it", next.epoch);
  return next;
}

void agree(Votes& votes, const Membership& next, bool is_leader, Machines& machines, SignalQueue& signals) {
  if (!is_leader) hear_host({LinkOp::kAgreed}, machines, signals);
  votes.begin(next);
  if (is_leader) machines.send_all({.op = LinkOp::kAgreed});
}

}  // namespace trainer::launch
