// What one rank writes of a checkpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/byte_sink.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/manifest.h"

namespace trainer::checkpoint {

/// The file of a checkpoint that `rank` writes.
std::string file_of(int rank);

/// The pieces that this rank writes: all of its own, or a share where several ranks have the same. They are read where
/// they live, or from a copy, which stays as it is while training goes on.
class Snapshot {
 public:
  Snapshot(const std::vector<LiveTensor>& tensors, int rank, int ranks);

  /// Of all pieces in `buffer`.
  int64_t bytes() const { return bytes_; }
  /// Copies the pieces into `buffer` (bytes() of the CPU); from then on they are read there.
  void copy_to(const at::Tensor& buffer);

  struct Written {
    std::vector<SavedTensor> tensors;
    StoredFile file;
  };
  /// Writes them as file_of() this rank. Errors: MachineError.
  Written write(std::unique_ptr<ByteSink> sink, const std::string& digest_kind) const;

 private:
  struct Entry {
    SavedTensor saved;  // with its piece, or none when this rank has nothing of it
    at::Tensor value;   // flat
    int64_t offset = 0;
  };

  std::string file_;
  std::vector<Entry> entries_;
  int64_t bytes_ = 0;
};

}  // namespace trainer::checkpoint
