#include "engine/base/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace trainer {
namespace {

/// Reads a line of /proc/self/maps, "BEGIN-END ACCESS OFFSET DEVICE INODE   PATH", character by character.
class Mapping {
 public:
  Mapping(char* path, size_t most) : path_(path), most_(most) {}

  /// True at the end of the line.
  bool take(char c) {
    if (c == '\n') return true;
    const bool separates = c == ' ' || (field_ == 0 && c == '-');
    if (field_ < 2 && !separates) bounds_[field_] = bounds_[field_] * 16 + digit(c);
    if (field_ == kPath && !(length_ == 0 && c == ' ') && length_ < most_) path_[length_++] = c;
    if (field_ < kPath && separates) ++field_;
    return false;
  }
  bool has(uintptr_t address) const { return bounds_[0] <= address && address < bounds_[1]; }
  size_t path_length() const { return length_; }

 private:
  static constexpr int kPath = 6;
  static uintptr_t digit(char c) { return static_cast<uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

  char* path_;
  size_t most_;
  int field_ = 0;
  uintptr_t bounds_[2] = {0, 0};
  size_t length_ = 0;
};

constexpr size_t kMostPath = 4096;
std::atomic<void (*)(const char* path, size_t length)> recorder{nullptr};

void handle(int, siginfo_t* info, void*) {
  const auto record = recorder.exchange(nullptr);
  while (record == nullptr) pause();  // another thread records its own, and ends the process
  char path[kMostPath];
  record(path, file_mapped_at(info->si_addr, path, kMostPath));
  signal(SIGBUS, SIG_DFL);  // the access is repeated, and ends the process
}

}  // namespace

size_t file_mapped_at(const void* address, char* path, size_t most) {
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return 0;
  char text[1024];
  Mapping mapping(path, most);
  size_t found = 0;
  bool done = false;
  for (ssize_t count = 0; !done && (count = read(maps, text, sizeof text)) > 0;)
    for (ssize_t i = 0; i < count && !done; ++i) {
      if (!mapping.take(text[i])) continue;
      done = mapping.has(reinterpret_cast<uintptr_t>(address));
      if (done)
        found = mapping.path_length();
      else
        mapping = Mapping(path, most);
    }
  close(maps);
  return found;
}

void on_bus_error(void (*record)(const char* path, size_t length)) {
  recorder.store(record);
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace trainer
