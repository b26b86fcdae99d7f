// How ranks reach the folder of the checkpoints, which perhaps not all of them see.
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

// [Note Without a shared folder] On several machines the output folder may be one that only machine 0 sees. Its ranks,
// the first ones, are then the keepers of the checkpoints. Every other rank has one of them for its keeper.
//   Saving:   instead of into a file, a rank writes to its keeper, who makes the file: same pieces, same checksums,
//             same manifest. The bytes go from memory to memory in parts of a few MiB, so the others need no disk. When
//             the keeper's disk is full it takes the rest and drops it; all ranks learn of it as they do of any other
//             trouble.
//   Resuming: the keepers choose the checkpoint and check its files. Then every rank says what it needs of which piece,
//             and the keepers send each machine what its ranks need of one, once: to the first of these, who passes it
//             on to the others while the next one comes. Nobody holds more than two pieces at a time.
// All of it goes over a communicator of its own, as a save beside training must not get between training's collectives,
// and over Gloo, whatever training uses.

class FolderAccess {
 public:
  /// All ranks see the folder.
  FolderAccess() = default;
  /// Only the first `keepers` ranks of `comm` do, those of the first machine, and the others send them what is to lie
  /// there. Every machine has as many ranks. `comm` is used for nothing else.
  FolderAccess(std::shared_ptr<dist::Comm> comm, int keepers);

  bool all_see() const { return comm_ == nullptr; }
  bool this_rank_sees() const;
  /// How many of `ranks` ranks see the folder: the first ones.
  int seeing(int ranks) const { return comm_ ? keepers_ : ranks; }

  /// For this rank's own file, which lies in the folder under the name file_of(). There must be one for each save,
  /// finished or not: a keeper waits for it.
  std::unique_ptr<ByteSink> sink(const std::filesystem::path& path) const;
  /// Keeper: writes the files of its ranks into `folder`; returns when all have finished or given up. Errors:
  /// MachineError when one could not be written, or came otherwise than it was sent; PeerError.
  void take_files(const std::filesystem::path& folder) const;

  /// Of the checkpoint's piece `piece`, counted through all its tensors, the elements [begin, end).
  struct Share {
    int64_t piece = 0, begin = 0, end = 0;
  };
  /// Collective, when not all see the folder. Brings this rank its `needed` shares, with the rising numbers of their
  /// pieces, or somewhat more of these pieces: `take` is given what came. Those that see the folder need none, and
  /// `read` a piece of it, 1D. Errors: MachineError when values come otherwise than they were sent; PeerError.
  void hand_out(const std::vector<Share>& needed, const std::function<at::Tensor(int64_t piece)>& read,
                const std::function<void(const Share& share, const at::Tensor& values)>& take) const;

 private:
  int keeper() const { return comm_->rank() % keepers_; }
  int machine_of(int rank) const { return rank / keepers_; }

  std::shared_ptr<dist::Comm> comm_;
  int keepers_ = 0;
};

}  // namespace trainer::checkpoint
