#include "engine/base/confinement.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

namespace trainer {
namespace {

constexpr int kCannotFilter = 100, kTrue = 101, kFalse = 102;

/// Whether `check` holds in a process that has been confined.
int confined(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    if (!confine()) _exit(kCannotFilter);
    _exit(check() ? kTrue : kFalse);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

bool is_refused(long result) {
  return result == -1 && errno == EPERM;
}

class Confinement : public ::testing::Test {
 protected:
  void SetUp() override {
    if (confined([] { return true; }) == kCannotFilter)
      GTEST_SKIP() << "this kernel, or a build with the address sanitizer, can't filter system calls";
  }
};

TEST_F(Confinement, StartsNoProgramAndNoProcess) {
  EXPECT_EQ(confined([] { return is_refused(execl("/bin/true", "true", nullptr)); }), kTrue);
  EXPECT_EQ(confined([] { return is_refused(fork()); }), kTrue);
  EXPECT_EQ(confined([] { return popen("true", "r") == nullptr; }), kTrue);
}

TEST_F(Confinement, OpensNoSocket) {
  for (const int family : {AF_INET, AF_INET6, AF_UNIX})
    EXPECT_EQ(confined([&] { return is_refused(socket(family, SOCK_STREAM, 0)); }), kTrue) << family;
}

TEST_F(Confinement, ReachesNoOtherProcess) {
  EXPECT_EQ(confined([] { return is_refused(kill(getppid(), 0)); }), kTrue);
  EXPECT_EQ(confined([] { return is_refused(ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr)); }), kTrue);
}

TEST_F(Confinement, ReadsFilesAndStartsThreads) {
  EXPECT_EQ(confined([] {
              std::FILE* const file = std::fopen("/proc/self/status", "r");
              int sum = 0;
              std::thread([&] { sum = 1; }).join();
              return file != nullptr && std::fgetc(file) == 'N' && sum == 1;
            }),
            kTrue);
}

}  // namespace
}  // namespace trainer
