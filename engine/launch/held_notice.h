// Says that the launcher itself waits for a file.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

namespace trainer::launch {

// Note [A held launcher]
// The launcher's loop touches no file, but its beginning, a restart and its end do. Where a file server doesn't
// respond, the kernel holds the launcher there: it handles no signal, and not even SIGKILL ends it, because the kernel
// then waits to give back the lock of output_dir. So that nobody has to guess, a thread says what it waits for.

/// During its lifetime, prints a line when the first thread of a process, this one, has been held for `patience`; once
/// each time.
class HeldNotice {
 public:
  explicit HeldNotice(std::chrono::milliseconds patience = std::chrono::seconds(10), pid_t pid = getpid());
  ~HeldNotice();
  HeldNotice(const HeldNotice&) = delete;
  HeldNotice& operator=(const HeldNotice&) = delete;

 private:
  void watch(std::chrono::milliseconds patience, pid_t pid);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::future<void> thread_;
};

}  // namespace trainer::launch
