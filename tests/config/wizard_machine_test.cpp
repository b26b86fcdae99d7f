#include "engine/config/wizard/machine.h"

#include "tests/config/given.h"

namespace trainer::config {
namespace {

class WizardMachine : public Given {
 protected:
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write(name, text);
  }
};

TEST_F(WizardMachine, ReadsThisMachine) {
  const Machine machine = read_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, int64_t{1} << 28);
}

TEST_F(WizardMachine, MemoryRespectsContainerLimit) {
  put("proc/meminfo", "MemFree:  1 kB\nMemTotal:       33554432 kB\n");
  EXPECT_EQ(read_machine(folder_).memory_bytes, int64_t{32} << 30);
  put("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(read_machine(folder_).memory_bytes, int64_t{32} << 30);
  put("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(read_machine(folder_).memory_bytes, int64_t{1} << 30);
}

TEST_F(WizardMachine, CoresRespectContainerLimit) {
  const int64_t all = read_machine(folder_).cores;
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(read_machine(folder_).cores, all);
  put("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(read_machine(folder_).cores, 1);
}

TEST_F(WizardMachine, ShowsTheGpusThatCudaMayUse) {
  GpuMachine gpus;
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_TRUE(read_machine(folder_, gpus).gpus.empty());
  gpus.gpus = {{.number = 0, .name = "NVIDIA H200"}, {.number = 1, .name = "NVIDIA A100"}};
  EXPECT_EQ(read_machine(folder_, gpus).gpus, (std::vector<std::string>{"NVIDIA H200", "NVIDIA A100"}));
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EQ(read_machine(folder_, gpus).gpus, std::vector<std::string>{"NVIDIA A100"});
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(WizardMachine, DescribesItself) {
  EXPECT_EQ((Machine{1, 0, {}}).text(), "1 core, no GPU");
  EXPECT_EQ((Machine{8, int64_t{3} << 29, {"A", "B", "A"}}).text(), "8 cores, 1.5 GiB of memory, 2 x A, 1 x B");
}

}  // namespace
}  // namespace trainer::config
