#include "engine/launch/restore.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <optional>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"
#include "engine/launch/background.h"
#include "engine/launch/copy_receiver.h"
#include "engine/launch/copy_sender.h"
#include "engine/launch/joint.h"
#include "engine/launch/meeting.h"
#include "engine/launch/screen.h"
#include "engine/launch/together.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

/// holdings_of(), while the connections are served: reading a checkpoint may take minutes.
Holdings look_into(const fs::path& folder, const std::string& whole, Machines& machines, SignalQueue& signals) {
  const Preparation done = prepare_beside(
      [&] {
        return Preparation{kDone, to_text(holdings_of(folder, whole))};
      },
      machines, signals);
  if (done.code != kDone) throw MachineError("{}", done.message);
  return holdings_from(done.message);
}

void refuse_leftovers(const std::vector<Holdings>& others, Machines& machines) {
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (others[i].newest.empty()) continue;
    throw ConfigError(
        "output_dir of {} holds checkpoints of an earlier run (the newest is {}), but "
        "checkpoint.resume_from_checkpoint is "
        "false, and checkpoint.replicas is to keep copies there.\n  Choose another output_dir or remove the "
        "checkpoints; "
        "nothing was changed.",
        machines.others()[i].name, others[i].newest);
  }
}

/// Leader: a copy of a checkpoint of `from`, or, "", of the run's own files. Returns why there is none, or "".
std::string fetch(const std::string& checkpoint, Machine& from, const fs::path& folder, Machines& machines,
                  SignalQueue& signals) {
  machines.send_all({.op = LinkOp::kRestore, .number = from.number, .strings = {checkpoint}});
  CopyReceiver receiver(folder, std::nullopt, std::numeric_limits<int64_t>::max());
  std::optional<std::string> end;
  serve_until(
      machines, signals, -1,
      [&] {
        for (; !from.inbox.empty(); from.inbox.pop_front()) {
          if (from.inbox.front().op == LinkOp::kStop)
            throw StoppedBeforeStart{static_cast<int>(from.inbox.front().number) == SIGINT ? SIGINT : SIGTERM};
          receiver.take(std::move(from.inbox.front()));
        }
        receiver.serve(from.line);
        end = receiver.take_end();
        return end.has_value();
      },
      kLookAgain);
  return *end;
}

/// Follower: sends what the leader has asked for.
void send_copy(const std::string& checkpoint, const fs::path& folder, Machines& machines, SignalQueue& signals) {
  CopySender sender(folder / checkpoint, [&] {
    return checkpoint.empty() ? offer_of_run(folder, /*all=*/false) : offer_of_checkpoint(folder, checkpoint);
  });
  Machine& leader = machines.numbered(0);
  serve_until(
      machines, signals, -1,
      [&] {
        for (; !leader.inbox.empty() && !sender.has_ended(); leader.inbox.pop_front()) {
          if (leader.inbox.front().op == LinkOp::kEnd) throw_ending(leader.inbox.front());
          sender.take(leader.inbox.front());
        }
        sender.serve(leader.line);
        return sender.has_ended();
      },
      kLookAgain);
}

}  // namespace

int64_t Restored::highest_epoch() const {
  int64_t highest = own.epoch;
  for (const Holdings& other : others) highest = std::max(highest, other.epoch);
  return highest;
}

Restored restore_newest(const fs::path& folder, Beginning beginning, Fetch what, const std::string& whole,
                        Machines& machines, SignalQueue& signals) {
  Restored all{.own = look_into(folder, whole, machines, signals)};
  for (const LinkMessage& message : collect(LinkOp::kHoldings, machines, signals))
    all.others.push_back(holdings_from(message.strings.empty() ? "" : message.strings.front()));
  if (beginning == Beginning::kFromScratch) refuse_leftovers(all.others, machines);
  if (beginning != Beginning::kNewest) return all;
  for (std::vector<Holdings> candidates = all.others;;) {
    const auto best = std::max_element(candidates.begin(), candidates.end(),
                                       [](const Holdings& a, const Holdings& b) { return b.is_newer_than(a); });
    if (best == candidates.end() || !best->is_newer_than(all.own)) return all;
    Machine& from = machines.others().at(static_cast<std::size_t>(best - candidates.begin()));
    const auto has_fetched = [&](const std::string& name) {
      const std::string why = fetch(name, from, folder, machines, signals);
      if (!why.empty())
        say("trainer: warning: {} was not copied from {}: {}\n", name.empty() ? "metrics.jsonl" : name, from.name, why);
      return why.empty();
    };
    say("trainer: copying {} from {} first: this machine does not hold it\n", best->newest, from.name);
    if (!has_fetched(best->newest)) {
      best->newest.clear();
      continue;
    }
    all.fetched = true;
    all.own.newest = best->newest;
    all.own.epoch = best->epoch;
    has_fetched("");  // the metrics of the steps before it; the run drops those after it
    if (what == Fetch::kAll)
      for (const auto& [name, digest] : best->checkpoints)
        if (name != best->newest && !all.own.checkpoints.contains(name)) has_fetched(name);
    return all;
  }
}

void go_ahead(int64_t leader_epoch, const Holdings& newest, Machines& machines) {
  machines.send_all({.op = LinkOp::kGoAhead, .number = leader_epoch, .strings = {to_text(newest)}});
}

void remove_abandoned(const fs::path& folder, const Holdings& newest) {
  if (newest.newest.empty()) return;
  for (const checkpoint::Found& found : checkpoint::find_checkpoints(folder)) {
    if (found.step <= newest.step()) continue;
    try {
      const int64_t epoch = checkpoint::read_contents(found.folder).leader_epoch;
      if (epoch >= newest.epoch) continue;
      checkpoint::remove_checkpoint(found.folder);
      say("trainer: removed {}: it is of leader epoch {}, but epoch {} continued the run from an earlier step, and is "
          "at {}\n",
          found.folder.string(), epoch, newest.epoch, newest.newest);
    } catch (const InputError&) {  // damaged, so it isn't used
    }
  }
}

Helped help_restore(const fs::path& folder, int machine, const std::string& why_not, const std::string& whole,
                    Machines& machines, SignalQueue& signals) {
  const Holdings own = why_not.empty() ? look_into(folder, whole, machines, signals)
                                       : Holdings{.why_not = why_not, .checkpoints = {}, .newest = {}};
  machines.send(0, {.op = LinkOp::kHoldings, .strings = {to_text(own)}});
  for (;;) {
    const LinkMessage next = hear_host({LinkOp::kRestore, LinkOp::kGoAhead}, machines, signals);
    if (next.op == LinkOp::kGoAhead) {
      if (why_not.empty() && !next.strings.empty()) remove_abandoned(folder, holdings_from(next.strings.front()));
      return {own, next.number};
    }
    if (next.number != machine || next.strings.empty()) continue;
    const std::string& checkpoint = next.strings.front();
    if (!checkpoint.empty() && step_of_checkpoint(checkpoint) < 0)
      throw PeerError("malformed message: '{}' is not a checkpoint", checkpoint.substr(0, 100));
    send_copy(checkpoint, folder, machines, signals);
  }
}

}  // namespace trainer::launch
