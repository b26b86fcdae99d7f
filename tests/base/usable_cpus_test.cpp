#include "engine/base/usable_cpus.h"

#include <sched.h>

#include <thread>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trainer {
namespace {

/// A container, as its files describe it.
class CpuQuota : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) { folder_.put(name, text); }
  int64_t quota() const { return cpu_quota(folder_.path().string()); }

  const testing::TemporaryFolder folder_;
};

TEST_F(CpuQuota, IsNoneWithoutALimit) {
  EXPECT_EQ(quota(), 0);
  put("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(quota(), 0);
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CpuQuota, IsTheLeastOfAllGroupsAbove) {  // systemd: a slice's limit holds for its services
  put("proc/self/cgroup", "0::/a.slice/b.service\n");
  put("sys/fs/cgroup/a.slice/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 3);
  put("sys/fs/cgroup/a.slice/b.service/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 3);
  put("sys/fs/cgroup/a.slice/b.service/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 1);  // half a CPU
}

TEST_F(CpuQuota, IsReadFromVersion1Too) {
  put("proc/self/cgroup", "4:memory:/docker/0a1b\n2:cpu,cpuacct:/docker/0a1b\n0::/\n");
  put("sys/fs/cgroup/cpu,cpuacct/docker/0a1b/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu,cpuacct/docker/0a1b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  put("sys/fs/cgroup/cpu,cpuacct/docker/0a1b/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, OfAContainerIsAtTheTop) {  // docker's --cpus: the group's path is the host's
  put("proc/self/cgroup", "2:cpu:/docker/0a1b\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 4);
}

TEST_F(CpuQuota, OfAnUnreadableFileIsNone) {
  put("proc/self/cgroup", "rubbish\n0::\n:\n");
  put("sys/fs/cgroup/cpu.max", "a b\n");
  EXPECT_EQ(quota(), 0);
}

TEST(UsableCpus, FollowTheAffinity) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cpus(), 1);
  }).join();
}

}  // namespace
}  // namespace trainer
