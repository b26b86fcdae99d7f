// A follower keeps copies of the leader's checkpoints: Note [Replicas].
#pragma once

#include <filesystem>

#include "engine/launch/copy_receiver.h"
#include "engine/launch/replication.h"

namespace trainer::launch {

class ReplicaKeeper : public Replication {
 public:
  /// See CopyReceiver.
  ReplicaKeeper(const std::filesystem::path& folder, checkpoint::Keep keep, int64_t leader_epoch, Machines& machines)
      : receiver_(folder, std::move(keep), leader_epoch), machines_(machines) {}

  bool take(Machine& from, LinkMessage& message) override;
  void serve() override { receiver_.serve(machines_.numbered(0).line); }
  std::optional<Clock::time_point> next_deadline() const override;
  void ranks_have_ended(bool /*finished*/) override {}
  bool is_busy() const override { return false; }  // the leader waits for it
  std::string newest_whole() const override { return receiver_.newest(); }

 private:
  CopyReceiver receiver_;
  Machines& machines_;
};

}  // namespace trainer::launch
