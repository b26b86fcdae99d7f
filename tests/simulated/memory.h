#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/Allocator.h>

#include "tests/simulated/blocks.h"
#include "tests/simulated/timeline.h"

namespace trainer::simulated {

/// The valid address behind one of the device's.
void* found(const void* address);
c10::Allocator& device_memory();

/// The memory of recorded graphs (Note [Recorded graphs]): its blocks remain allocated while it lives, and a freed one
/// is given to the next operator of a recording that asks for as many bytes.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  void add(void* address, size_t bytes);
  /// A freed block, or null.
  void* take(size_t bytes);
  void give_back(void* address);
  std::vector<Range> ranges() const;
  bool is_free(const void* address) const;

 private:
  mutable std::mutex mutex_;
  struct Block {
    size_t bytes;
    bool free;
  };
  std::map<const void*, Block> blocks_;
};

/// From now on, what operators of the stream allocate belongs to the pool; null: none.
void use_pool(Pool* pool, StreamNumber stream);
bool is_in_pool(const void* address);

/// The device's blocks and their sizes; freed ones of pools are not in use.
std::vector<std::pair<const void*, size_t>> all_blocks();
std::vector<std::pair<const void*, size_t>> blocks_in_use();

/// The block that `address` lies in.
BlockId block_at(const void* address);
bool is_alive(const BlockId& block);

}  // namespace trainer::simulated
