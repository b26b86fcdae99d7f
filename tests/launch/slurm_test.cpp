// What `scontrol` prints. tests/end_to_end/slurm_test.py runs the real one.
#include "engine/launch/slurm.h"

#include <gtest/gtest.h>

namespace trainer::launch {
namespace {

TEST(Slurm, ReadsWhatScontrolPrints) {
  const std::string node = "NodeName=node1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=node1 Version=22.05.8\n",
                    settings = "KeepAliveTime           = SYSTEM_DEFAULT\nKillOnBadExit           = 0\n"
                               "KillWait                = 30 sec\nLaunchParameters        = (null)\n";
  EXPECT_EQ(scontrol_value(node, "NodeAddr"), "10.0.0.1");
  EXPECT_EQ(scontrol_value(node, "Version"), "22.05.8");
  EXPECT_EQ(scontrol_value(node, "Addr"), "") << "only whole names";
  EXPECT_EQ(scontrol_value(settings, "KillWait"), "30");
  EXPECT_EQ(scontrol_value("KillWait = ", "KillWait"), "");
  EXPECT_EQ(scontrol_value("", "KillWait"), "");
}

TEST(Slurm, LeavesNamesAloneOutsideOfAJob) {
  unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(reachable_name("no-such-host.invalid"), "no-such-host.invalid");
  EXPECT_FALSE(slurm_kill_wait());
}

}  // namespace
}  // namespace trainer::launch
