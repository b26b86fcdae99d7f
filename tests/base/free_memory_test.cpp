#include "engine/base/free_memory.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trainer {
namespace {

/// A machine with 1,000 kB of available memory, as its files describe it.
class FreeMemory : public ::testing::Test {
 protected:
  FreeMemory() { put("proc/meminfo", "MemTotal:  2000 kB\nMemAvailable:  1000 kB\n"); }
  void put(const std::string& name, const std::string& text) { folder_.put(name, text); }
  int64_t found() const { return free_memory_of(folder_.path().c_str()); }

  const testing::TemporaryFolder folder_;
};

TEST_F(FreeMemory, IsTheMachinesWithoutALimit) {
  EXPECT_EQ(found(), 1'024'000);
  put("proc/self/cgroup", "5:memory:/docker/0a1b\n0::/\n");
  put("sys/fs/cgroup/memory.max", "max\n");
  put("sys/fs/cgroup/memory.current", "5000\n");
  put("sys/fs/cgroup/memory/docker/0a1b/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/docker/0a1b/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(found(), 1'024'000);
}

TEST_F(FreeMemory, IsWhatTheTightestGroupAboveLeaves) {
  put("proc/self/cgroup", "0::/a.slice/b.service\n");
  put("sys/fs/cgroup/a.slice/memory.max", "60000\n");
  put("sys/fs/cgroup/a.slice/memory.current", "50000\n");
  put("sys/fs/cgroup/a.slice/b.service/memory.max", "40000\n");
  put("sys/fs/cgroup/a.slice/b.service/memory.current", "20000\n");
  EXPECT_EQ(found(), 10'000);
}

TEST_F(FreeMemory, CountsPagesOfFilesAsFree) {  // a container that has read a model of 16 GB isn't full
  put("proc/self/cgroup", "0::/b\n");
  put("sys/fs/cgroup/b/memory.max", "40000\n");
  put("sys/fs/cgroup/b/memory.current", "39000\n");
  put("sys/fs/cgroup/b/memory.stat", "anon 1000\nfile 38000\ninactive_file 30000\nactive_file 8000\n");
  EXPECT_EQ(found(), 39'000);
}

TEST_F(FreeMemory, IsReadFromVersion1Too) {
  put("proc/self/cgroup", "5:memory:/docker/0a1b\n0::/\n");
  const std::string group = "sys/fs/cgroup/memory/docker/0a1b/";
  put(group + "memory.limit_in_bytes", "40000\n");
  put(group + "memory.usage_in_bytes", "39000\n");
  EXPECT_EQ(found(), 1'000);
  put(group + "memory.stat", "inactive_file 1\ntotal_inactive_file 30000\ntotal_active_file 8000\n");
  EXPECT_EQ(found(), 39'000);
}

TEST_F(FreeMemory, OfFullGroupsIsZero) {
  put("proc/self/cgroup", "0::/b\n");
  put("sys/fs/cgroup/b/memory.max", "40000\n");
  put("sys/fs/cgroup/b/memory.current", "41000\n");
  EXPECT_EQ(found(), 0);
}

}  // namespace
}  // namespace trainer
