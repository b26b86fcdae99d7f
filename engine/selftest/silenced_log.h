// Silences the screen.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace trainer::selftest {

/// During its lifetime, discards everything that this process writes to standard error, where a run logs its progress.
class SilencedLog {
 public:
  SilencedLog() : screen_(dup(STDERR_FILENO)) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  ~SilencedLog() {
    dup2(screen_, STDERR_FILENO);
    close(screen_);
  }
  SilencedLog(const SilencedLog&) = delete;
  SilencedLog& operator=(const SilencedLog&) = delete;

 private:
  int screen_;
};

}  // namespace trainer::selftest
