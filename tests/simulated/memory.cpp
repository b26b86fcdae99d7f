// The device's memory: of the host, but at invalid addresses, so that nothing reads it except through this device.
#include "tests/simulated/memory.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <c10/util/Exception.h>

#include "tests/simulated/device.h"

namespace trainer::simulated {
namespace {

constexpr uintptr_t kNowhere = uintptr_t{1} << 60;  // a bit that no valid address has
constexpr size_t kHeader = 64;                      // before each block: its size and device; as wide as libtorch's alignment

struct Usage {
  std::atomic<int64_t> held{0}, peak{0};
};
std::array<Usage, kMostDevices> usage;

struct Header {
  int64_t bytes;
  int device;
};

int64_t environment_number(const char* name, int64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

void release(void* address) {
  if (address == nullptr) return;
  timeline().freed(reinterpret_cast<uintptr_t>(address));
  auto* const block = static_cast<char*>(found(address)) - kHeader;
  Header header{};
  std::memcpy(&header, block, sizeof header);
  usage[static_cast<size_t>(header.device)].held -= header.bytes;
  std::free(block);
}

struct Memory : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device = current_device();
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    Usage& of = usage[static_cast<size_t>(device.index())];
    const auto size = static_cast<int64_t>(bytes);
    static const int64_t lost = environment_number("TRAINER_SIMULATED_LOST_BYTES", 0);
    TORCH_CHECK_WITH(OutOfMemoryError, of.held + size <= memory_limit() - lost, "simulated device out of memory. Tried to allocate ",
                     size, " bytes. Device ", static_cast<int>(device.index()), " has a total capacity of ", memory_limit(),
                     " bytes of which ", memory_limit() - of.held, " bytes are free.");
    const int64_t now = of.held += size;
    for (int64_t peak = of.peak; now > peak && !of.peak.compare_exchange_weak(peak, now);) {
    }
    auto* const block = static_cast<char*>(std::malloc(bytes + kHeader));
    const Header header{size, device.index()};
    std::memcpy(block, &header, sizeof header);
    const uintptr_t address = reinterpret_cast<uintptr_t>(block + kHeader) | kNowhere;
    timeline().allocated({address, address + bytes}, current_stream());
    return {reinterpret_cast<void*>(address), reinterpret_cast<void*>(address), &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(found(to), found(from), bytes);
  }
};

/// Blocks of pinned memory, by address.
struct PinnedBlocks {
  std::mutex mutex;
  std::map<const void*, size_t> bytes;
};
PinnedBlocks& pinned_blocks() {
  static auto* const one = new PinnedBlocks;  // never destroyed, as the timeline
  return *one;
}

std::atomic<int64_t> pinned_bytes{0};

void unpin(void* address) {
  if (address == nullptr) return;
  {
    const std::lock_guard lock(pinned_blocks().mutex);
    const auto found = pinned_blocks().bytes.find(address);
    if (found != pinned_blocks().bytes.end()) {
      pinned_bytes -= static_cast<int64_t>(found->second);
      pinned_blocks().bytes.erase(found);
    }
  }
  timeline().freed(reinterpret_cast<uintptr_t>(address));
  std::free(address);
}

struct Pinned : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &unpin, c10::DeviceType::CPU};
    void* const address = std::aligned_alloc(kHeader, (bytes + kHeader - 1) / kHeader * kHeader);
    const auto begin = reinterpret_cast<uintptr_t>(address);
    timeline().allocated({begin, begin + bytes}, kHost);
    const std::lock_guard lock(pinned_blocks().mutex);
    pinned_blocks().bytes[address] = bytes;
    pinned_bytes += static_cast<int64_t>(bytes);
    return {address, address, &unpin, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

c10::Allocator& pinned_memory() {
  static Pinned memory;
  return memory;
}

bool any_pinned() {
  return pinned_bytes > 0;
}

bool is_pinned(const void* address) {
  if (!any_pinned()) return false;
  const std::lock_guard lock(pinned_blocks().mutex);
  const auto after = pinned_blocks().bytes.upper_bound(address);
  if (after == pinned_blocks().bytes.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return static_cast<const char*>(address) < static_cast<const char*>(begin) + bytes;
}

void* found(const void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~kNowhere);
}

c10::Allocator& device_memory() {
  static Memory memory;
  return memory;
}

int device_count() {
  static const auto count = static_cast<int>(environment_number("TRAINER_SIMULATED_DEVICES", 4));
  return count;
}
int64_t memory_limit() {
  static const int64_t bytes = environment_number("TRAINER_SIMULATED_BYTES", int64_t{4} << 30);
  return bytes;
}
int64_t held_pinned_bytes() {
  return pinned_bytes;
}
int64_t held_bytes(int index) {
  return usage.at(static_cast<size_t>(index)).held;
}
int64_t peak_bytes(int index) {
  return usage.at(static_cast<size_t>(index)).peak;
}
void forget_peak(int index) {
  Usage& of = usage.at(static_cast<size_t>(index));
  of.peak = of.held.load();
}

}  // namespace trainer::simulated
