// How ranks access the checkpoint folder, which not all of them may see.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/base/byte_sink.h"
#include "engine/dist/comm.h"

namespace trainer::checkpoint {

// Note [Without a shared folder]
// On several machines, only machine 0 may see the output folder. Its ranks, the first ones, are then the keepers of the
// checkpoints. Every other rank has one of them as its keeper.
//   Saving:   a rank sends its file to its keeper, which writes it: same shards, same checksums, same manifest. The
//             bytes go from memory to memory in parts of a few MiB, so the other machines need no disk. If the keeper's
//             disk is full, it receives the rest and drops it; all ranks learn of it as of any other error.
//   Resuming: the keepers choose the checkpoint and verify its files. Then every rank requests ranges of shards, and
//             the keepers send each machine what its ranks need of a shard, once: to the first of these ranks, which
//             forwards it to the others while the next shard arrives. No rank holds more than two shards at a time.
// All of this uses a separate communicator, since a save during training must not interleave with training's
// collectives, and always Gloo, whatever backend training uses.

class FolderAccess {
 public:
  /// All ranks see the folder.
  FolderAccess() = default;
  /// Only the first `keepers` ranks of `comm`, those of the first machine, see the folder; the others send them their
  /// files. Every machine has the same number of ranks. `comm` must not be used for anything else.
  FolderAccess(std::shared_ptr<dist::Comm> comm, int keepers);

  bool all_see() const { return comm_ == nullptr; }
  bool this_rank_sees() const;
  /// How many of `ranks` ranks see the folder: the first ones.
  int seeing(int ranks) const { return comm_ ? keepers_ : ranks; }

  /// For this rank's file, file_of() in the folder. Every save needs one, finished or not: a keeper waits for it.
  std::unique_ptr<ByteSink> sink(const std::filesystem::path& path) const;
  /// Keeper: writes the files of its ranks into `folder`; returns when all have finished or given up. Errors:
  /// MachineError when a file could not be written or was corrupted in transit; PeerError.
  void take_files(const std::filesystem::path& folder) const;

  /// The elements [begin, end) of shard number `piece`, counted over all tensors of the checkpoint.
  struct Share {
    int64_t piece = 0, begin = 0, end = 0;
  };
  /// Collective, when not all ranks see the folder. Brings this rank its `needed` ranges, sorted by shard number, or
  /// larger ranges of these shards, and passes them to `take`. Ranks that see the folder need none; they `read` shards,
  /// 1D. Errors: MachineError when values were corrupted in transit; PeerError.
  void hand_out(const std::vector<Share>& needed, const std::function<at::Tensor(int64_t piece)>& read,
                const std::function<void(const Share& share, const at::Tensor& values)>& take) const;

 private:
  int keeper() const { return comm_->rank() % keepers_; }
  int machine_of(int rank) const { return rank / keepers_; }

  std::shared_ptr<dist::Comm> comm_;
  int keepers_ = 0;
};

}  // namespace trainer::checkpoint
