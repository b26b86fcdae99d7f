// The device's memory: of the host, but at invalid addresses, so that nothing reads it except through this device.
#include "tests/simulated/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "tests/simulated/blocks.h"
#include "tests/simulated/device.h"
#include "tests/simulated/pinned.h"

namespace trainer::simulated {
namespace {

constexpr uintptr_t kNowhere = uintptr_t{1} << 60;  // a bit that no valid address has
constexpr size_t kHeader = 512;                     // before each block: what is known of it; as wide as CUDA's alignment

struct Usage {
  std::atomic<int64_t> held{0}, peak{0};          // by tensors
  std::atomic<int64_t> reserved{0}, most_reserved{0};  // also by freed blocks that are kept
};
std::array<Usage, kMostDevices> usage;

struct Header {
  int64_t bytes, used;  // reserved, and by the tensor
  int device;
  StreamNumber stream;  // that it was allocated on
  Pool* pool;           // null: none
};

void note_most(std::atomic<int64_t>& most, int64_t now) {
  for (int64_t peak = most; now > peak && !most.compare_exchange_weak(peak, now);) {
  }
}

Blocks& device_blocks() {
  static auto* const one = new Blocks;  // never destroyed, as the timeline
  return *one;
}

struct {
  std::atomic<Pool*> pool{nullptr};
  std::atomic<StreamNumber> stream{kHost};
} recorded;

Pool* pool_of_current_stream() {
  return recorded.pool != nullptr && recorded.stream == current_stream() ? recorded.pool.load() : nullptr;
}

int64_t environment_number(const char* name, int64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

Header* header_of(const void* address) {
  return reinterpret_cast<Header*>(static_cast<char*>(found(address)) - kHeader);
}

/// Freed blocks, kept as CUDA's allocator keeps them: for tensors of the stream they were allocated on, once every other
/// stream that used them is done. (CUDA's splits them; here, a tensor gets one of up to twice its size.) They are
/// given back only when memory runs out.
class Cache {
 public:
  /// A kept block, or null.
  void* take(int device, StreamNumber stream, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& kept = kept_[{device, stream}];
    const auto end = kept.upper_bound(2 * bytes);
    const auto found = std::find_if(kept.lower_bound(bytes), end, [&](const auto& block) {
      return timeline().may_reuse(reinterpret_cast<uintptr_t>(block.second), stream);
    });
    if (found == end) return nullptr;
    void* const address = found->second;
    kept.erase(found);
    return address;
  }
  void keep(void* address) {
    const Header& block = *header_of(address);
    const std::lock_guard lock(mutex_);
    kept_[{block.device, block.stream}].emplace(block.bytes, address);
  }
  /// As cudaFree, waits for the device, which isn't counted: it happens where the run would otherwise fail.
  void empty(int device) {
    const std::lock_guard lock(mutex_);
    for (auto& [where, blocks] : kept_) {
      if (where.first != device) continue;
      for (const auto& [bytes, address] : blocks) give_back(address);
      blocks.clear();
    }
  }
  static void give_back(void* address) {
    Header* const block = header_of(address);
    timeline().returned(reinterpret_cast<uintptr_t>(address));
    usage[static_cast<size_t>(block->device)].reserved -= block->bytes;
    std::free(block);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, StreamNumber>, std::multimap<int64_t, void*>> kept_;  // by size
};
Cache& cache() {
  static auto* const one = new Cache;
  return *one;
}

void free_block(void* address, bool keep) {
  timeline().freed(reinterpret_cast<uintptr_t>(address));
  device_blocks().remove(address);
  const Header* const block = header_of(address);
  usage[static_cast<size_t>(block->device)].held -= block->used;
  if (keep)
    cache().keep(address);
  else
    Cache::give_back(address);
}

void release(void* address) {
  if (address == nullptr) return;
  if (Pool* const pool = header_of(address)->pool)
    pool->give_back(address);
  else
    free_block(address, /*keep=*/true);
}

/// New memory of the device. Errors: c10::OutOfMemoryError.
void* reserve(int device, StreamNumber stream, int64_t size, Pool* pool) {
  Usage& of = usage[static_cast<size_t>(device)];
  static const int64_t lost = environment_number("TRAINER_SIMULATED_LOST_BYTES", 0);
  if (of.reserved + size > memory_limit() - lost) cache().empty(device);
  TORCH_CHECK_WITH(OutOfMemoryError, of.reserved + size <= memory_limit() - lost,
                   "simulated device out of memory. Tried to allocate ", size, " bytes. Device ", device,
                   " has a total capacity of ", memory_limit(), " bytes of which ", memory_limit() - of.reserved,
                   " bytes are free.");
  note_most(of.most_reserved, of.reserved += size);
  const auto bytes = static_cast<size_t>(size);
  auto* const block = static_cast<char*>(std::aligned_alloc(kHeader, (bytes + 2 * kHeader - 1) / kHeader * kHeader));
  const Header header{size, 0, device, stream, pool};
  std::memcpy(block, &header, sizeof header);
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(block + kHeader) | kNowhere);
}

struct Memory : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device = current_device();
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    Pool* const pool = pool_of_current_stream();
    if (void* const again = pool != nullptr ? pool->take(bytes) : nullptr) return {again, again, &release, device};
    const auto size = static_cast<int64_t>(bytes);
    const StreamNumber stream = current_stream();
    void* const kept = pool == nullptr ? cache().take(device.index(), stream, size) : nullptr;
    void* const address = kept != nullptr ? kept : reserve(device.index(), stream, size, pool);
    Usage& of = usage[static_cast<size_t>(device.index())];
    header_of(address)->used = size;
    note_most(of.peak, of.held += size);
    const auto begin = reinterpret_cast<uintptr_t>(address);
    timeline().allocated({begin, begin + bytes}, stream);
    device_blocks().add(address, bytes);
    if (pool != nullptr) pool->add(address, bytes);
    return {address, address, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(found(to), found(from), bytes);
  }
};

}  // namespace

void* found(const void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~kNowhere);
}

c10::Allocator& device_memory() {
  static Memory memory;
  return memory;
}

Pool::~Pool() {
  for (const auto& [address, block] : blocks_) {
    auto* const begin = const_cast<void*>(address);
    header_of(begin)->pool = nullptr;  // what is still in use is freed when it no longer is
    if (block.free) free_block(begin, /*keep=*/false);
  }
}

void Pool::add(void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  blocks_[address] = {bytes, false};
}

void* Pool::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, block] : blocks_)
    if (block.free && block.bytes == bytes) {
      block.free = false;
      return const_cast<void*>(address);
    }
  return nullptr;
}

void Pool::give_back(void* address) {
  const std::lock_guard lock(mutex_);
  blocks_.at(address).free = true;
}

std::vector<Range> Pool::ranges() const {
  const std::lock_guard lock(mutex_);
  std::vector<Range> all;
  for (const auto& [address, block] : blocks_) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    all.push_back({begin, begin + block.bytes});
  }
  return all;
}

bool Pool::is_free(const void* address) const {
  const std::lock_guard lock(mutex_);
  return blocks_.at(address).free;
}

void use_pool(Pool* pool, StreamNumber stream) {
  recorded.stream = stream;
  recorded.pool = pool;
}

bool is_in_pool(const void* address) {
  const auto block = device_blocks().block_at(address);
  return block && header_of(block->begin)->pool != nullptr;
}

std::vector<std::pair<const void*, size_t>> all_blocks() {
  return device_blocks().all();
}

std::vector<std::pair<const void*, size_t>> blocks_in_use() {
  auto list = device_blocks().all();
  std::erase_if(list, [](const auto& block) {
    const Pool* const pool = header_of(block.first)->pool;
    return pool != nullptr && pool->is_free(block.first);
  });
  return list;
}

BlockId block_at(const void* address) {
  if (const auto block = device_blocks().block_at(address)) return *block;
  return pinned_block_at(address).value_or(BlockId{});
}

bool is_alive(const BlockId& block) {
  return block.begin != nullptr && block_at(block.begin).number == block.number;
}

int device_count() {
  static const auto count = static_cast<int>(environment_number("TRAINER_SIMULATED_DEVICES", 4));
  return count;
}
int64_t memory_limit() {
  static const int64_t bytes = environment_number("TRAINER_SIMULATED_BYTES", int64_t{4} << 30);
  return bytes;
}
int64_t held_bytes(int index) {
  return usage.at(static_cast<size_t>(index)).held;
}
int64_t peak_bytes(int index) {
  return usage.at(static_cast<size_t>(index)).peak;
}
int64_t reserved_bytes(int index) {
  return usage.at(static_cast<size_t>(index)).reserved;
}
int64_t most_reserved_bytes(int index) {
  return usage.at(static_cast<size_t>(index)).most_reserved;
}
void forget_peak(int index) {
  Usage& of = usage.at(static_cast<size_t>(index));
  of.peak = of.held.load();
  of.most_reserved = of.reserved.load();
}

}  // namespace trainer::simulated
