// The leader has copies of its checkpoints kept by followers: Note [Replicas].
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/launch/copy_sender.h"
#include "engine/launch/holdings.h"
#include "engine/launch/replication.h"
#include "engine/launch/run_status.h"

namespace trainer::launch {

class Replicator : public Replication {
 public:
  /// `copies`: wanted besides the leader's own. `held`: by machines.others(). Reports in `status` which checkpoint has
  /// them all.
  Replicator(std::filesystem::path folder, int64_t copies, const std::vector<Holdings>& held, Machines& machines,
             RunStatus& status);
  /// Warns when the run is complete, but its copies aren't.
  ~Replicator() override;
  Replicator(const Replicator&) = delete;
  Replicator& operator=(const Replicator&) = delete;

  bool take(Machine& from, LinkMessage& message) override;
  void serve() override;
  std::optional<Clock::time_point> next_deadline() const override;
  void ranks_have_ended(bool finished) override;
  bool is_busy() const override;
  std::string newest_whole() const override { return saved_.empty() ? "" : saved_.front().name; }

 private:
  /// A published checkpoint, or kMetrics or kModel as of the newest one, whose digest it has.
  struct Saved {
    std::string name, digest;
  };
  static constexpr const char *kMetrics = "metrics.jsonl", *kModel = "the final model";
  struct Keeper {
    int machine;
    std::string why_not{};                      // it failed to keep one: not again before the next checkpoint
    std::map<std::string, std::string> held{};  // Saved::digest by name
    std::unique_ptr<CopySender> sender{};
    Saved sending{};
    int failures = 0;                // in a row, on this side: the files changed while they were read
    Clock::time_point not_before{};  // after such a failure
  };

  void look();
  std::vector<Saved> due(const Keeper& keeper) const;
  std::vector<std::size_t> chosen() const;
  void serve(Keeper& keeper);
  void settle(Keeper& keeper);
  void give_up(Keeper& keeper, const std::string& why);
  void note_replicated();
  bool is_lost(const Keeper& keeper) const { return !machines_.numbered(keeper.machine).line.is_open(); }

  const std::filesystem::path folder_;
  const int64_t copies_;
  Machines& machines_;
  RunStatus& status_;
  std::vector<Keeper> keepers_;
  std::vector<Saved> saved_;                                                                // the newest first
  std::map<std::string, std::pair<std::filesystem::file_time_type, std::string>> digests_;  // of manifests
  Clock::time_point next_look_ = Clock::now();
  bool finished_ = false;
  std::string warned_;
};

}  // namespace trainer::launch
