#include "tests/simulated/pinned.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "tests/simulated/device.h"

namespace trainer::simulated {
namespace {

std::atomic<int64_t> pinned_bytes{0};

Blocks& pinned_blocks() {
  static auto* const one = new Blocks;  // never destroyed, as the timeline
  return *one;
}

size_t whole_pages(size_t bytes) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// The distance between a block's two views. Between them lies a page that nothing may use.
size_t distance(size_t bytes) {
  return whole_pages(bytes) + whole_pages(1);
}

std::string name_of(const void* code) {
  Dl_info of;
  if (dladdr(code, &of) == 0 || of.dli_fname == nullptr) return fmt::format("code at {}", code);
  const auto offset = static_cast<const char*>(code) - static_cast<const char*>(of.dli_fbase);
  return fmt::format("code at {}+{:#x}{}", std::filesystem::path(of.dli_fname).filename().string(), offset,
                     of.dli_sname == nullptr ? std::string() : fmt::format(" ({})", of.dli_sname));
}

struct sigaction before_ours;

/// A fault happens in the code that uses the memory, never in the timeline, which uses the other view: so this may do
/// what handlers of other signals may not.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (!is_pinned(info->si_addr)) {
    sigaction(signal, &before_ours, nullptr);  // the fault comes again
    return;
  }
  const void* code = nullptr;
  bool writes = false;
#if defined(__x86_64__)
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  code = reinterpret_cast<const void*>(registers[REG_RIP]);
  writes = (registers[REG_ERR] & 2) != 0;
#endif
  timeline().host_touches(name_of(code), reinterpret_cast<uintptr_t>(info->si_addr), writes);
}

void watch_faults() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction ours{};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &ours, &before_ours);
  });
}

/// Both views, of zeros; returns the host's.
void* map_twice(size_t bytes) {
  const size_t size = whole_pages(bytes);
  const int file = memfd_create("pinned", MFD_CLOEXEC);
  TORCH_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(size)) == 0, "pinned memory: ", std::strerror(errno));
  void* const all = mmap(nullptr, distance(bytes) + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK(all != MAP_FAILED, "pinned memory: ", std::strerror(errno));
  for (const size_t offset : {size_t{0}, distance(bytes)}) {
    void* const view = mmap(static_cast<char*>(all) + offset, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    TORCH_CHECK(view != MAP_FAILED, "pinned memory: ", std::strerror(errno));
  }
  close(file);
  return all;
}

void unpin(void* address) {
  if (address == nullptr) return;
  timeline().freed(reinterpret_cast<uintptr_t>(address));
  const size_t bytes = pinned_blocks().remove(address);
  pinned_bytes -= static_cast<int64_t>(bytes);
  munmap(address, distance(bytes) + whole_pages(bytes));
}

struct Pinned : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &unpin, c10::DeviceType::CPU};
    watch_faults();
    void* const address = map_twice(bytes);
    const auto begin = reinterpret_cast<uintptr_t>(address);
    timeline().allocated({begin, begin + bytes}, kHost);
    pinned_blocks().add(address, bytes);
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
  return any_pinned() && pinned_blocks().block_at(address).has_value();
}

std::optional<BlockId> pinned_block_at(const void* address) {
  return pinned_blocks().block_at(address);
}

int64_t held_pinned_bytes() {
  return pinned_bytes;
}

void* as_device_sees(const void* address) {
  const std::optional<BlockId> block = pinned_blocks().block_at(address);
  TORCH_INTERNAL_ASSERT(block);
  return const_cast<char*>(static_cast<const char*>(address)) + distance(block->bytes);
}

void protect_pinned(uintptr_t begin, Allowed allowed) {
  auto* const address = reinterpret_cast<void*>(begin);
  const int protection = allowed == Allowed::kAll       ? PROT_READ | PROT_WRITE
                         : allowed == Allowed::kReading ? PROT_READ
                                                        : PROT_NONE;
  const std::optional<BlockId> block = pinned_block_at(address);
  TORCH_INTERNAL_ASSERT(block && mprotect(address, whole_pages(block->bytes), protection) == 0);
}

}  // namespace trainer::simulated
