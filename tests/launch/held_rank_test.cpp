// Ranks that the kernel holds: nothing that a launcher does to them may block it.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/launch/held_notice.h"
#include "engine/launch/held_process.h"
#include "engine/launch/native_stack.h"
#include "tests/launch/several_machines.h"
#include "tests/support/held_process.h"
#include "tests/support/temporary_folder.h"

namespace trainer::launch {
namespace {

/// A run on one machine, with two ranks.
class HeldRank : public SeveralMachines {
 protected:
  HeldRank() : SeveralMachines(1, 2) { plan_.config.main_process_ip.clear(); }

  /// A process traced by another one stays unreaped after SIGKILL, as one does that a frozen cgroup or a device holds:
  /// its parent waits in vain.
  pid_t hold(int rank) {
    const pid_t held = std::stoi(noted(fmt::format("pid-{}", rank)));
    if (ptrace(PTRACE_SEIZE, held, nullptr, nullptr) != 0) return 0;
    return held;
  }

  /// The launcher has reported why rank 1 did not end. Lets it end.
  void expect_reason(pid_t held) {
    EXPECT_TRUE(said(0, fmt::format("rank 1 (process {}) was killed but does not end", held))) << screen(0);
    EXPECT_TRUE(said(0, fmt::format("it is traced by process {}", getpid()))) << screen(0);
    if (pid_of(0) > 0) kill(pid_of(0), SIGKILL);
    waitpid(held, nullptr, __WALL);
  }

  /// The launcher ends with `code` within `seconds`; -1 when it doesn't.
  int finish_within(double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(pid_of(0)), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
      if (std::chrono::steady_clock::now() >= end) return -1;
      usleep(1000);
    }
    return finish(0);
  }
};

TEST_F(HeldRank, DoesNotHoldTheLauncher) {
  patience_.together = milliseconds(0);
  start(0, {{"FAKE", "hang:stubborn"}});
  for (const int rank : {0, 1}) wait_for_note(fmt::format("ready-{}", rank));
  const pid_t held = hold(1);
  if (held == 0) GTEST_SKIP() << "this system does not permit ptrace of a grandchild";
  kill(pid_of(0), SIGTERM);
  wait_for([&] { return said(0, "once more to stop at once"); });
  kill(pid_of(0), SIGTERM);
  EXPECT_EQ(finish_within(20), 143) << screen(0);
  expect_reason(held);
}

/// A scheduler sends one SIGTERM and waits.
TEST_F(HeldRank, DoesNotHoldTheLauncherAfterOneStopSignal) {
  plan_.config.checkpoint.grace_seconds = 1;
  start(0, {{"FAKE", "hang:stubborn"}});
  for (const int rank : {0, 1}) wait_for_note(fmt::format("ready-{}", rank));
  const pid_t held = hold(1);
  if (held == 0) GTEST_SKIP() << "this system does not permit ptrace of a grandchild";
  kill(pid_of(0), SIGTERM);
  EXPECT_EQ(finish_within(20), 143) << screen(0);
  expect_reason(held);
}

/// /proc and /sys of a machine, as far as what_holds() reads them.
class HeldBy : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) {
    const fs::path file = root_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  std::string reason() { return what_holds(7, root_.path().string()); }

  testing::TemporaryFolder root_;
};

TEST_F(HeldBy, AFrozenCgroupOfVersion1) {
  write("proc/7/cgroup", "12:memory:/slurm/job_3\n7:freezer:/slurm/job_3/step_0\n1:name=systemd:/\n");
  write("sys/fs/cgroup/freezer/slurm/job_3/step_0/freezer.state", "FROZEN\n");
  EXPECT_EQ(reason(), "its cgroup /slurm/job_3/step_0 is frozen");
  write("sys/fs/cgroup/freezer/slurm/job_3/step_0/freezer.state", "FREEZING\n");
  EXPECT_EQ(reason(), "its cgroup /slurm/job_3/step_0 is frozen");
  write("sys/fs/cgroup/freezer/slurm/job_3/step_0/freezer.state", "THAWED\n");
  write("proc/7/status", "Name:\tworker\nState:\tD (disk sleep)\nTracerPid:\t0\n");
  EXPECT_EQ(reason(), "it is in state D (disk sleep)");
}

TEST_F(HeldBy, AFrozenCgroupOfVersion2) {
  write("proc/7/cgroup", "0::/kubepods/pod1\n");
  write("sys/fs/cgroup/kubepods/pod1/cgroup.events", "populated 1\nfrozen 1\n");
  EXPECT_EQ(reason(), "its cgroup /kubepods/pod1 is frozen");
  write("sys/fs/cgroup/kubepods/pod1/cgroup.events", "populated 1\nfrozen 0\n");
  EXPECT_EQ(reason(), "its state can't be read");
}

TEST_F(HeldBy, AFileSystemOrATracer) {
  write("proc/7/status", "Name:\tworker\nState:\tZ (zombie)\nTracerPid:\t0\n");
  write("proc/7/task/7/status", "Name:\tworker\nState:\tZ (zombie)\nTracerPid:\t0\n");
  EXPECT_EQ(reason(), "it is in state Z (zombie)");
  write("proc/7/task/9/status", "Name:\tworker\nState:\tD (disk sleep)\nTracerPid:\t0\n");
  write("proc/7/task/9/wchan", "nfs_wait_bit_killable");
  EXPECT_EQ(reason(), "it is in state D (disk sleep) in nfs_wait_bit_killable");
  write("proc/7/status", "Name:\tworker\nState:\tt (tracing stop)\nTracerPid:\t4711\n");
  EXPECT_EQ(reason(), "it is traced by process 4711");
}

TEST(NativeStackOfAHeldProcess, EndsWithoutAStack) {
  const testing::HeldProcess held;
  const pid_t reader = fork();  // so that the test ends even if the reader doesn't
  if (reader == 0) {
    setpgid(0, 0);
    _exit(native_stack(held.pid()).empty() ? 0 : 1);
  }
  int status = -1;
  for (int i = 0; i < 20'000 && waitpid(reader, &status, WNOHANG) == 0; ++i) usleep(1000);
  EXPECT_TRUE(WIFEXITED(status)) << "the reader of the stack hangs";
  if (status == -1) {
    kill(reader, SIGKILL);
    waitpid(reader, nullptr, 0);
  }
}

TEST(Uninterruptible, IsTheStateOfAHeldProcess) {
  const testing::HeldProcess held;
  EXPECT_TRUE(uninterruptible(held.pid()).starts_with("state D (disk sleep)")) << uninterruptible(held.pid());
  EXPECT_EQ(uninterruptible(held.pid()), uninterruptible(held.pid(), /*main_thread=*/true));
  EXPECT_EQ(uninterruptible(getpid()), "");
}

TEST(HeldNotice, SaysOnceWhatTheLauncherWaitsFor) {
  const testing::HeldProcess held;
  ::testing::internal::CaptureStderr();
  {
    const HeldNotice notice(std::chrono::milliseconds(20), held.pid()), none(std::chrono::milliseconds(20));
    usleep(1'000'000);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  const std::string line = "trainer: waiting for a file: the launcher is in state D (disk sleep)";
  EXPECT_TRUE(text.starts_with(line)) << text;
  EXPECT_EQ(text.find(line, 1), std::string::npos) << text;
}

}  // namespace
}  // namespace trainer::launch
