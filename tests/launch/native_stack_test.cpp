#include "engine/launch/native_stack.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trainer::launch {

[[gnu::noinline]] void wait_for_ever() {
  for (;;) ::pause();
}

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// A child that has been stopped while it waits, and continued.
class NativeStack : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) wait_for_ever();
    usleep(100'000);  // until the child waits
    if (ptrace(PTRACE_SEIZE, child_, nullptr, nullptr) != 0)
      GTEST_SKIP() << "this system does not permit ptrace of a child";
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, child_, nullptr, nullptr), 0);
    waitpid(child_, nullptr, __WALL);
    ASSERT_EQ(ptrace(PTRACE_DETACH, child_, nullptr, nullptr), 0);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  pid_t child_ = 0;
};

TEST_F(NativeStack, NamesTheFunctionsOfAChild) {
  EXPECT_THAT(native_stack(child_), Contains(HasSubstr("trainer::launch::wait_for_ever")));
}

TEST_F(NativeStack, NamesTheFunctionsOfAStoppedChild) {
  kill(child_, SIGSTOP);
  usleep(10'000);
  EXPECT_THAT(native_stack(child_), Contains(HasSubstr("trainer::launch::wait_for_ever")));
}

TEST_F(NativeStack, LetsTheChildContinue) {
  native_stack(child_);
  kill(child_, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child_, &status, 0), child_);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(NativeStack, IsEmptyForADeadProcess) {
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  EXPECT_THAT(native_stack(child_), ::testing::IsEmpty());
}

}  // namespace
}  // namespace trainer::launch
