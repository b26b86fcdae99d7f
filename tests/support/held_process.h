// A process that the kernel holds.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trainer::testing {

/// A parent that waits for its vfork()ed child sleeps uninterruptibly (D) for everything but SIGKILL, so a tracer waits
/// for it for ever.
class HeldProcess {
 public:
  HeldProcess() : pid_(fork()) {
    if (pid_ == 0) {
      if (vfork() == 0)
        for (;;) ::pause();
      _exit(0);
    }
    for (int i = 0; i < 10'000 && state() != 'D'; ++i) usleep(1000);
    EXPECT_EQ(state(), 'D');
  }
  ~HeldProcess() {
    std::string children;
    std::getline(std::ifstream(fmt::format("/proc/{0}/task/{0}/children", pid_)), children);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    if (!children.empty()) kill(std::stoi(children), SIGKILL);
  }
  HeldProcess(const HeldProcess&) = delete;
  HeldProcess& operator=(const HeldProcess&) = delete;

  pid_t pid() const { return pid_; }

 private:
  char state() const {
    std::string text;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid_)), text);
    const size_t name_end = text.rfind(')');
    return name_end + 2 < text.size() ? text[name_end + 2] : '?';
  }

  pid_t pid_;
};

}  // namespace trainer::testing
