// Saves a run, also while it trains.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "engine/base/folder_lock.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/folder_access.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/signing_key.h"
#include "engine/checkpoint/snapshot.h"

namespace trainer::checkpoint {

// Note [Saving beside training]
// A save has two phases, each of which a rank runs in a separate thread:
//   write    every rank copies its shards to memory, writes them to a file and fsyncs it, or has another rank do that
//            (Note [Without a shared folder] in folder_access.h);
//   publish  rank 0 alone writes the manifest, which lists all files with their checksums, and renames the folder.
// Between the phases ranks must agree. Only the training thread may use the communicator, so it polls ready(), sums the
// results over the ranks in the one collective that every update has anyway, and when all are ready calls advance(), a
// collective, on all of them. The optimizer must not change a weight before it has been copied: wait_for_copy().
//
// A process that was paused for long (its machine was suspended or disconnected) may find that another attempt, or
// another run, owns the folder. Rank 0 therefore checks the owner before it changes anything in the folder, and before
// it publishes also that no leader of a higher epoch has (leader_epoch.h); and a new attempt begins by removing
// unfinished saves, so a folder that was about to be published is gone (Note [Pause points],
// tests/checkpoint/pause_test.cpp).
//
// A signature (signature.h) is made by rank 0 when it publishes, from the checksums in the manifest, which are SHA-256
// then: signing reads nothing again. Adding metrics to the manifest later replaces the whole folder by one with links
// to the same files, since a manifest and its signature are two files.
//
// After a crash: a save is written under a hidden name, so it is either published, with all its files on disk, or
// ignored. A second save begins only when the first one is done.

/// Writes the checkpoints of a run.
class Saver {
 public:
  struct Options {
    std::filesystem::path output_dir;
    Keep keep;
    std::string digest = "xxh3";
    bool async = false;  // false: begin() returns when the save is done
    FolderAccess access{};
    std::optional<SigningKey> key{};  // of rank 0, if checkpoints are signed; `digest` is sha256 then
  };
  /// Adds further files to the unpublished folder; called on rank 0, in the writing thread.
  using Also = std::function<void(const std::filesystem::path& folder)>;

  Saver(Options options, dist::Comm& comm);
  /// Waits for this rank's work; a save that isn't published by then is lost.
  ~Saver();

  /// On rank 0, before any rank looks for a checkpoint: a paused process of an earlier attempt can't publish one
  /// afterwards. Errors: PeerError when another launcher has taken the folder.
  void remove_unfinished() const;
  /// Before the first update. Allocates the memory for copies, so that the first save doesn't have to.
  void prepare(const RunState& state) { take_memory(state); }

  /// Collective. Begins a save after waiting for a previous one. Errors: MachineError, on all ranks alike; the save
  /// then leaves no trace in the folder. PeerError as remove_unfinished().
  void begin(Manifest about, const RunState& state, Also also);
  /// The key that signs; null: none, or on another rank.
  const SigningKey* key() const { return options_.key ? &*options_.key : nullptr; }
  bool busy() const { return phase_ != Phase::kIdle; }
  /// Whether this rank's part of the phase is done; false when no save is in progress.
  bool ready() const;
  /// Collective. Waits for the phase to end on every rank, and begins the next. Errors: as begin().
  void advance();
  /// Collective. Waits until the save is published. Errors: as begin().
  void finish();
  /// Returns when weights and optimizer state may change. Collective if ranks share them.
  void wait_for_copy();
  /// Adds metrics that were measured after the checkpoint of `step` was saved, and rotates by them. A failure is only a
  /// warning.
  void record(int64_t step, const std::map<std::string, double>& metrics) const;

 private:
  enum class Phase { kIdle, kWriting, kPublishing };
  /// A rank's report at the end of a phase.
  struct Report {
    std::string problem;  // "" on success
    std::string written;  // written_to_text()
  };

  std::future<Report> start(std::function<Report()> work);
  Report write(Snapshot& snapshot, const Also& also);
  Report publish();
  void write_manifest(const Manifest& manifest, const std::filesystem::path& folder) const;
  void replace_manifest(const Manifest& manifest, const std::filesystem::path& folder) const;
  void fail(const std::string& problem);
  void take_memory(const RunState& state);

  const Options options_;
  const FolderOwner owner_;
  dist::Comm& comm_;
  at::Tensor buffer_;
  Phase phase_ = Phase::kIdle;
  Manifest about_;
  std::filesystem::path partial_;
  std::promise<void> copied_;
  std::future<void> copy_;
  bool shared_ = false;  // what is saved is in memory that ranks share
  std::future<Report> work_;
  std::set<std::string> said_;  // what went wrong after a checkpoint was published
};

}  // namespace trainer::checkpoint
