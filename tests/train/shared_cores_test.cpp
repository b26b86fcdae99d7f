// When a run reports that its cores are shared.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/train/shared_cores.h"

namespace trainer::testing {
namespace {

using train::seconds_waited_for_core;
using train::SharedCores;

/// The first report in `updates` such updates; 0: none.
double see(SharedCores& cores, double seconds, double waited, size_t updates = SharedCores::kWindow) {
  double first = 0;
  for (size_t i = 0; i < updates; ++i)
    if (const double part = cores.see(seconds, waited); part > 0 && first == 0) first = part;
  return first;
}

TEST(SharedCores, AreReportedOnceAfterAWindow) {
  SharedCores cores;
  EXPECT_EQ(see(cores, 1, 0.5, SharedCores::kWindow - 1), 0);
  EXPECT_DOUBLE_EQ(see(cores, 1, 0.5, 1), 0.5);
  EXPECT_EQ(see(cores, 1, 0.9, 5 * SharedCores::kWindow), 0);
}

TEST(SharedCores, AreNotReportedForShortWaitsOrOneLongOne) {
  SharedCores cores;
  EXPECT_EQ(see(cores, 1, 0.2, 5 * SharedCores::kWindow), 0);
  EXPECT_EQ(see(cores, 4, 4, 1), 0);
  EXPECT_EQ(see(cores, 0, 0, 5 * SharedCores::kWindow), 0);
}

/// Until both have used half a second of one core, each has waited for the other.
TEST(SharedCores, AreSeenInTheKernelsCount) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const double waited = seconds_waited_for_core();
  const pid_t other = fork();
  if (other == 0)
    for (;;) {
    }
  timespec used{}, now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  constexpr double kUsed = 0.5;
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while (static_cast<double>(now.tv_sec - used.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - used.tv_nsec) <
         kUsed);
  const double then = seconds_waited_for_core();
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  sched_setaffinity(0, sizeof before, &before);
  if (then == 0) GTEST_SKIP() << "this kernel doesn't count it";
  EXPECT_GT(then - waited, 0);
}

}  // namespace
}  // namespace trainer::testing
