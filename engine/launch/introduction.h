// How a machine identifies itself when it joins, and what must be the same on all machines.
#pragma once

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/link_protocol.h"
#include "engine/config/plan/plan.h"
#include "engine/launch/membership.h"

namespace trainer::launch {

/// An option's value on one machine, and where the value comes from.
struct Setting {
  std::string path, value, origin;
};

struct Introduction {
  int machine = 0;
  int machines = 1;
  std::string name;    // the host name: "node-b"
  std::string build;   // of the program that trains
  std::string job;     // "SLURM job 7, step 0"; "" without a scheduler that numbers jobs
  std::string gpus;    // kinds_text() of those that its ranks use; "" without any
  int64_t epoch = 0;   // the highest leader epoch that it has followed: Note [Leader epochs]
  VoteRecord votes{};  // Note [Votes]
  /// It accepts a machine that doesn't lead yet, but asks for votes, only if its number is below this.
  int candidates_below = INT_MAX;
  double ahead = 0;  // if received: seconds by which its clock is ahead of ours, ignoring the message's latency
  std::vector<Setting> settings;
};

/// `machine` of `plan`, with the build of the program `worker_path`, in the job that started this process.
Introduction introduce(const config::Plan& plan, const std::string& worker_path);

/// To be sent at once: the message carries the current time.
LinkMessage to_message(const Introduction& introduction);
/// To be called on arrival, as it compares clocks. Errors: PeerError when the message isn't an introduction.
Introduction introduction_of(const LinkMessage& message);

/// One line for each setting that must be equal on both and isn't. Paths may differ: folders may be mounted elsewhere.
std::vector<std::string> differences(const Introduction& leader, const Introduction& follower);

/// A warning that the clock of `follower`, called `name`, differs from ours; "" when it agrees.
std::string about_clock(const Introduction& follower, const std::string& name);

/// A warning that the GPUs of `follower`, called `name`, aren't of the leader's kind; "" if they are.
std::string about_gpus(const Introduction& leader, const Introduction& follower, const std::string& name);

/// The build id that the linker wrote into a program; "" when it has none. Errors: MachineError.
std::string build_id(const std::string& program);

}  // namespace trainer::launch
