// The part of a checkpoint that one rank writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/byte_sink.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/manifest.h"

namespace trainer::checkpoint {

/// The name of the checkpoint file that `rank` writes.
std::string file_of(int rank);

/// The shards that this rank writes: its own, or a part of them if several ranks hold replicas. They are read in place,
/// or from a copy, which doesn't change while training continues.
class Snapshot {
 public:
  Snapshot(const std::vector<LiveTensor>& tensors, int rank, int ranks);

  /// The size of the buffer that holds all shards.
  int64_t bytes() const { return bytes_; }
  /// Copies the shards into `buffer` (bytes() on the CPU); from then on they are read from there.
  void copy_to(const at::Tensor& buffer);

  struct Written {
    std::vector<SavedTensor> tensors;
    StoredFile file;
  };
  /// Writes the shards to this rank's file_of(). Errors: MachineError.
  Written write(std::unique_ptr<ByteSink> sink, const std::string& digest_kind) const;

 private:
  struct Entry {
    SavedTensor saved;  // with its shard, or with none when this rank writes nothing of it
    at::Tensor value;   // flat
    int64_t offset = 0;
  };

  std::string file_;
  std::vector<Entry> entries_;
  int64_t bytes_ = 0;
};

}  // namespace trainer::checkpoint
