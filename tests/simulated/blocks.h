// What is allocated, by address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace trainer::simulated {

/// A block of the device or of pinned memory, of all that have been allocated at its address.
struct BlockId {
  const void* begin = nullptr;
  uint64_t number = 0;
  size_t bytes = 0;
};

/// Thread-safe.
class Blocks {
 public:
  void add(const void* address, size_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_[address] = {bytes, ++last_};
  }
  /// Returns its size; 0 if there was none.
  size_t remove(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return 0;
    const size_t bytes = found->second.bytes;
    blocks_.erase(found);
    return bytes;
  }
  /// The block that the address lies in, or none.
  std::optional<BlockId> block_at(const void* address) const {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return {};
    const auto& [begin, block] = *std::prev(after);
    if (static_cast<const char*>(address) >= static_cast<const char*>(begin) + block.bytes) return {};
    return BlockId{begin, block.number, block.bytes};
  }
  std::vector<std::pair<const void*, size_t>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<const void*, size_t>> list;
    for (const auto& [address, block] : blocks_) list.emplace_back(address, block.bytes);
    return list;
  }

 private:
  struct Block {
    size_t bytes;
    uint64_t number;
  };
  mutable std::mutex mutex_;
  std::map<const void*, Block> blocks_;
  static inline std::atomic<uint64_t> last_{0};
};

}  // namespace trainer::simulated
