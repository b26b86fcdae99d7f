// Saving a run, also while it goes on.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "engine/base/folder_lock.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/folder_access.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/snapshot.h"

namespace trainer::checkpoint {

// [Note Saving beside training] A save has two phases, each of them work that a rank does in a thread of its own:
//   write    every rank copies its pieces to memory, writes them to a file, and fsyncs it, or has that done by another
//            rank ([Note Without a shared folder] in folder_access.h);
//   publish  rank 0 alone writes the manifest, which names all files with their checksums, and renames the folder.
// Between the phases ranks must agree. Nothing but the training thread may use the communicator, so it asks now and
// then (ready()), adds up over the ranks in the one collective that every update has anyway, and when all are ready
// calls advance() on all of them, which is a collective. The optimiser must not change a weight before its copy is
// there: wait_for_copy().
//
// What stands still for long and goes on (its machine was paused, or cut off) may find that another life of the run, or
// another run, has the folder: rank 0 then changes nothing in it. It asks who owns the folder before it does, and a new
// life begins by removing what others have not finished: a folder that was about to be published is gone then.
//
// What a crash leaves: the folder grows under a hidden name, so it is either published, with all of its files on the
// disk, or it is not looked at. A second save begins when the first one is done.

/// Writes checkpoints of one run.
class Saver {
 public:
  struct Options {
    std::filesystem::path output_dir;
    Keep keep;
    std::string digest = "xxh3";
    bool beside_training = false;  // else begin() returns when all is done
    FolderAccess access{};
  };
  /// Puts further files into the growing folder; called on rank 0, in the thread that writes.
  using Also = std::function<void(const std::filesystem::path& folder)>;

  Saver(Options options, dist::Comm& comm);
  /// Waits for this rank's work; what is not published then never will be.
  ~Saver();

  /// Before the first update. Removes what older lives have not finished, and takes the memory for copies, so that the
  /// first save doesn't have to. Errors: PeerError on rank 0 when another launcher has taken the folder.
  void prepare(const RunState& state);

  /// Collective. Begins a save, after waiting for one under way. Errors: MachineError, on all ranks alike; the folder
  /// is then as if nothing had been begun. PeerError as prepare().
  void begin(Manifest about, const RunState& state, Also also);
  bool busy() const { return phase_ != Phase::kIdle; }
  /// Whether this rank's part of the phase is done. False when it isn't busy.
  bool ready() const;
  /// Collective. Waits for the phase to end on every rank, and begins the next. Errors: as begin().
  void advance();
  /// Collective. Waits until the save is published. Errors: as begin().
  void finish();
  /// Returns when weights and optimiser state may change.
  void wait_for_copy();
  /// Adds what was measured after the checkpoint of `step` was saved, and rotates by it. A failure is a warning.
  void record(int64_t step, const std::map<std::string, double>& metrics) const;

 private:
  enum class Phase { kIdle, kWriting, kPublishing };
  /// What a rank says at the end of a phase.
  struct Report {
    std::string problem;  // "" when it went well
    std::string written;  // written_to_text()
  };

  std::future<Report> start(std::function<Report()> work);
  Report write(Snapshot& snapshot, const Also& also);
  Report publish();
  void fail(const std::string& problem);
  void take_memory(const RunState& state);
  void remove_unfinished() const;
  void require_own_folder() const;

  const Options options_;
  const FolderOwner owner_;
  dist::Comm& comm_;
  at::Tensor buffer_;
  Phase phase_ = Phase::kIdle;
  Manifest about_;
  std::filesystem::path partial_;
  std::promise<void> copied_;
  std::future<void> copy_;
  std::future<Report> work_;
};

}  // namespace trainer::checkpoint
