// Silences the screen.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace trainer::selftest {

/// During its lifetime, discards everything that this process writes to standard error, where a run logs its progress.
class Muted {
 public:
  Muted() : screen_(dup(STDERR_FILENO)) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  ~Muted() {
    dup2(screen_, STDERR_FILENO);
    close(screen_);
  }
  Muted(const Muted&) = delete;
  Muted& operator=(const Muted&) = delete;

 private:
  int screen_;
};

}  // namespace trainer::selftest
