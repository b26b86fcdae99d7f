#include "engine/dist/memory.h"

#include <sys/resource.h>

#include <atomic>
#include <cstring>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

namespace trainer::dist {
namespace {

std::atomic<int64_t> g_held{0}, g_peak{0};  // process-wide, as the allocator is

void add(int64_t bytes) {
  const int64_t held = g_held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (held > peak && !g_peak.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
  }
}

/// Each block is preceded by its size, padded to the alignment that libtorch expects of its allocator.
constexpr size_t kHeader = c10::gAlignment;

at::Allocator* g_inner = nullptr;  // libtorch's own; global, as a deleter is a plain function without state

void release_block(void* block) {
  if (block == nullptr) return;
  auto* const start = static_cast<char*>(block) - kHeader;
  int64_t bytes = 0;
  std::memcpy(&bytes, start, sizeof bytes);
  g_held.fetch_sub(bytes, std::memory_order_relaxed);
  g_inner->raw_deallocate(start);
}

class CountingAllocator : public at::Allocator {
 public:
  at::DataPtr allocate(size_t size) override {
    const auto device = at::Device(c10::DeviceType::CPU);
    if (size == 0) return {nullptr, nullptr, &release_block, device};
    auto* const start = static_cast<char*>(g_inner->raw_allocate(size + kHeader));
    const auto bytes = static_cast<int64_t>(size);
    std::memcpy(start, &bytes, sizeof bytes);
    add(bytes);
    return {start + kHeader, start + kHeader, &release_block, device};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

void count_tensor_memory() {
  static CountingAllocator counting;
  g_inner = c10::GetAllocator(c10::DeviceType::CPU);
  constexpr uint8_t kAboveTheDefault = 10;
  c10::SetAllocator(c10::DeviceType::CPU, &counting, kAboveTheDefault);
}

void add_tensor_bytes(int64_t bytes) {
  add(bytes);
}

int64_t tensor_bytes() {
  return g_held;
}
int64_t peak_tensor_bytes() {
  return g_peak;
}
void reset_peak_tensor_bytes() {
  g_peak = g_held.load();
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace trainer::dist
