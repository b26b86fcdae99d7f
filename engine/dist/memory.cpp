#include "engine/dist/memory.h"

#include <sys/resource.h>

#include <atomic>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace trainer::dist {
namespace {

std::atomic<int64_t> g_held{0}, g_peak{0};  // process-wide, as the allocator is

void add(int64_t bytes) {
  const int64_t held = g_held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (held > peak && !g_peak.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
  }
}

/// What a counted block must remember until it is freed.
struct Counted {
  at::DataPtr inner;
  int64_t bytes;
};

void release(void* context) {
  auto* const counted = static_cast<Counted*>(context);
  g_held.fetch_sub(counted->bytes, std::memory_order_relaxed);
  delete counted;
}

class CountingAllocator : public at::Allocator {
 public:
  explicit CountingAllocator(at::Allocator& inner) : inner_(inner) {}
  at::DataPtr allocate(size_t bytes) override {
    auto* const counted = new Counted{inner_.allocate(bytes), static_cast<int64_t>(bytes)};
    add(counted->bytes);
    return {counted->inner.get(), counted, &release, counted->inner.device()};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { inner_.copy_data(to, from, bytes); }

 private:
  at::Allocator& inner_;
};

}  // namespace

void count_tensor_memory() {
  static CountingAllocator counting(*c10::GetAllocator(c10::DeviceType::CPU));
  constexpr uint8_t kAboveTheDefault = 10;
  c10::SetAllocator(c10::DeviceType::CPU, &counting, kAboveTheDefault);
}

void add_tensor_bytes(int64_t bytes) { add(bytes); }

int64_t tensor_bytes() { return g_held; }
int64_t peak_tensor_bytes() { return g_peak; }
void reset_peak_tensor_bytes() { g_peak = g_held.load(); }

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace trainer::dist
