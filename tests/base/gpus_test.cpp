#include "engine/base/gpus.h"

#include "engine/base/gpu_faults.h"
#include "engine/base/gpu_library.h"
#include "tests/base/fake_gpus.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

std::string numbers(const std::vector<VisibleGpu>& gpus) {
  std::string text;
  for (const VisibleGpu& one : gpus) text += (text.empty() ? "" : ",") + std::to_string(one.gpu->number);
  return text;
}

TEST_F(FakeGpus, AContainerKeepsTheNumbersOfItsHost) {
  EXPECT_TRUE(without_nvml().gpus.empty());
  for (const char* other : {"nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia", "nvidia1x"})
    put(fmt::format("dev/{}", other), "");
  EXPECT_TRUE(without_nvml().gpus.empty());
  put("dev/nvidia3", "");
  const GpuMachine machine = without_nvml();
  ASSERT_EQ(machine.gpus.size(), 1U);
  EXPECT_EQ(machine.gpus[0].number, 0);
  EXPECT_EQ(machine.gpus[0].minor, 3);
  EXPECT_EQ(machine.gpus[0].name, "NVIDIA GPU");
  EXPECT_EQ(why_too_few_gpus(machine, {}, 1), "");
  EXPECT_EQ(why_too_few_gpus(machine, "0", 1), "");
  EXPECT_EQ(why_too_few_gpus(machine, "3", 1), "CUDA_VISIBLE_DEVICES is '3', which selects none of this machine's 1 GPU");
}

TEST_F(FakeGpus, ProcDescribesThoseWithADeviceFile) {
  describe("0000:86:00.0", "NVIDIA A100-SXM4-40GB", "GPU-00000000-aaaa", 1);  // its bus comes last
  describe("0000:3b:00.0", "NVIDIA H100", "GPU-?\?\?\?-\?", 2);
  describe("0000:10:00.0", "Tesla T4", "GPU-00000000-cccc", 0);
  put("dev/nvidia1", "");
  put("dev/nvidia2", "");
  put("proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)\nGCC version:\n");
  put("sys/bus/pci/devices/0000:3b:00.0/numa_node", "0\n");
  put("sys/bus/pci/devices/0000:86:00.0/numa_node", "-1\n");
  const GpuMachine machine = without_nvml();
  ASSERT_EQ(machine.gpus.size(), 2U) << "the container was given two of the three";
  EXPECT_EQ(machine.gpus[0].name, "NVIDIA H100");
  EXPECT_EQ(machine.gpus[0].uuid, "") << "unknown to the driver as yet";
  EXPECT_EQ(machine.gpus[0].numa_node, 0);
  EXPECT_EQ(machine.gpus[1].uuid, "GPU-00000000-aaaa");
  EXPECT_EQ(machine.gpus[1].numa_node, -1);
  EXPECT_EQ(machine.driver, "580.65.06");
}

TEST_F(FakeGpus, NvmlKnowsAll) {
  put("sys/bus/pci/devices/0000:19:00.0/numa_node", "1\n");
  put("sys/devices/system/node/node1/cpulist", "4-6,12\n");
  put("proc/4711/comm", "python\n");
  put("dev/nvidia7", "");
  const GpuMachine machine =
      with_nvml(kDriver580 + gpu(0) + gpu(1, "NVIDIA A100", 40 * kGiB, 31 * kGiB, "8.0") + "process|12|1024\n" +
                "process|4711|32212254720\n" + "process|13|18446744073709551615\n");
  EXPECT_EQ(machine.driver, "580.65.06");
  EXPECT_EQ(machine.cuda, 13000);
  ASSERT_EQ(machine.gpus.size(), 2U) << "/dev is not asked";
  const Gpu& gpu = machine.gpus[1];
  EXPECT_EQ(gpu.name, "NVIDIA A100");
  EXPECT_EQ(gpu.uuid, "GPU-0000aaa1-1111");
  EXPECT_EQ(gpu.bus, "0000:19:00.0");
  EXPECT_EQ(gpu.minor, 1);
  EXPECT_EQ(gpu.total_bytes, 40 * kGiB);
  EXPECT_EQ(gpu.used_bytes, 31 * kGiB);
  EXPECT_EQ(gpu.capability_major * 10 + gpu.capability_minor, 80);
  EXPECT_EQ(gpu.numa_node, 1);
  EXPECT_EQ(cpus_of_node(1, root_), (std::vector<int>{4, 5, 6, 12}));
  EXPECT_FALSE(gpu.mig);
  EXPECT_EQ(users_of(gpu), "process 4711 (python, 30 GiB), process 12 (1.0 KiB) and process 13");
}

TEST_F(FakeGpus, ManyProcessesUseAGpu) {
  std::string lines = kDriver580 + gpu(0);
  for (int pid = 1; pid <= 150; ++pid) lines += fmt::format("process|{}|1048576\n", pid);
  EXPECT_EQ(with_nvml(lines).gpus.at(0).processes.size(), 150U);
}

TEST(CpuList, IsReadAsTheKernelWritesIt) {
  EXPECT_EQ(parse_cpu_list("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(parse_cpu_list("5"), std::vector<int>{5});
  for (const char* bad : {"", "x", "1-", "-1", "1,,2", "0-99999999999"}) EXPECT_TRUE(parse_cpu_list(bad).empty()) << bad;
}

TEST_F(FakeGpus, ABrokenDriverIsNamedAndDevStillCounts) {
  put("dev/nvidia0", "");
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan\n");
  const GpuMachine machine = with_nvml("init|18\n");
  ASSERT_EQ(machine.gpus.size(), 1U);
  EXPECT_EQ(why_too_few_gpus(machine, {}, 1), "");
  const std::string fault = gpu_fault(machine, visible_gpus(machine, {}));
  EXPECT_TRUE(fault.starts_with("the NVIDIA driver 570.86.15 does not work: Driver/library version mismatch\n")) << fault;
  std::filesystem::remove_all(root_ / "dev");
  EXPECT_EQ(why_too_few_gpus(with_nvml("init|9\n"), {}, 1),
            "this machine shows no NVIDIA GPU: its driver does not work (Driver Not Loaded)");
}

TEST_F(FakeGpus, ALostGpuIsNotCounted) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0) + gpu(1) + "lost|15\n" + gpu(2));
  EXPECT_EQ(machine.gpus.size(), 2U);
  EXPECT_EQ(machine.trouble, "GPU 1: Unknown Error");
}

TEST_F(FakeGpus, VisibleDevicesAreReadAsTorchReadsThem) {
  std::string lines = kDriver580;
  for (const char* uuid : {"GPU-8a56f1c2-0001", "GPU-8a56f1c2-0002", "GPU-77d0aa10-0003", "GPU-c0ffee00-0004"})
    lines += fmt::format("gpu|NVIDIA H100|{}|00000000:18:00.0|0|9.0|1024|0\n", uuid);
  const GpuMachine machine = with_nvml(lines);
  std::ifstream golden(source_dir() + "/tests/base/visible_gpus.txt");
  int compared = 0;
  for (std::string line; std::getline(golden, line); ++compared) {
    const auto tab = line.find('\t');
    EXPECT_EQ(numbers(visible_gpus(machine, line.substr(0, tab))), line.substr(tab + 1)) << line;
  }
  EXPECT_GE(compared, 400);
}

TEST_F(FakeGpus, NamesOfUnknownGpusAreBelieved) {
  put("dev/nvidia3", "");
  const GpuMachine machine = without_nvml();
  EXPECT_EQ(numbers(visible_gpus(machine, "GPU-8a56")), "0");
  EXPECT_EQ(numbers(visible_gpus(machine, "GPU-8a56,GPU-77d0")), "0") << "there is only one";
}

TEST_F(FakeGpus, MigInstancesAreDevices) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0) + "mig|MIG-1111-a|1|0|21474836480|0\n" +
                                       "mig|MIG-1111-b|2|0|21474836480|0\n" + gpu(1));
  const auto ids = [&](const std::optional<std::string>& variable) {
    std::string text;
    for (const VisibleGpu& one : visible_gpus(machine, variable)) text += one.id() + " ";
    return text;
  };
  EXPECT_EQ(ids({}), "MIG-1111-a MIG-1111-b GPU-0000aaa1-1111 ");
  EXPECT_EQ(ids("0"), "MIG-1111-a MIG-1111-b ");
  EXPECT_EQ(ids("MIG-1111-b"), "MIG-1111-b ");
  EXPECT_EQ(ids("MIG-1111-b,MIG-1111-a"), "MIG-1111-b MIG-1111-a ");
  EXPECT_EQ(ids("MIG-1111"), "") << "ambiguous";
  EXPECT_EQ(ids("MIG-GPU-0000aaa0-1111/2/0"), "MIG-1111-b ");
  EXPECT_EQ(ids("MIG-GPU-0000aaa0-1111/3/0"), "");
  EXPECT_TRUE(has_instances(visible_gpus(machine, {})));
  EXPECT_FALSE(has_instances(visible_gpus(machine, "1")));
  EXPECT_EQ(visible_gpus(machine, {}).front().text(), "MIG-1111-a of GPU 0 (NVIDIA H100 80GB HBM3, 20 GiB)");
}

TEST_F(FakeGpus, TooFewAreReportedWithBothNumbers) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0) + gpu(1) + gpu(2));
  EXPECT_EQ(why_too_few_gpus(machine, {}, 3), "");
  EXPECT_EQ(why_too_few_gpus(machine, {}, 4), "4 ranks per machine need a GPU each, but this machine has 3");
  EXPECT_EQ(why_too_few_gpus(machine, "2,0", 3),
            "3 ranks per machine need a GPU each, but CUDA_VISIBLE_DEVICES '2,0' selects 2 of 3");
  EXPECT_EQ(why_too_few_gpus(machine, "", 1), "CUDA_VISIBLE_DEVICES is '', which selects none of this machine's 3 GPUs");
  setenv("SLURM_JOB_ID", "7", 1);
  EXPECT_EQ(why_too_few_gpus(machine, "NoDevFiles", 1),
            "this SLURM job has no GPU: ask for them (--gpus-per-node, or --gres=gpu:N)");
  setenv("SLURM_GPUS_ON_NODE", "3", 1);
  EXPECT_EQ(why_too_few_gpus(machine, "0,1,2", 3), "");
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_GPUS_ON_NODE");
}

TEST_F(FakeGpus, AnOldDriverIsAFaultWithBothVersions) {
  const std::string fault = [&] {
    const GpuMachine machine = with_nvml("driver|550.54.14|12040\n" + gpu(0));
    return gpu_fault(machine, visible_gpus(machine, {}));
  }();
  EXPECT_TRUE(fault.starts_with("the NVIDIA driver 550.54.14 supports CUDA 12.4, but this build needs CUDA 13.0, which "
                                "comes with driver 580 and newer\n"))
      << fault;
  const GpuMachine compatible = with_nvml("driver|550.54.14|13000\n" + gpu(0));
  EXPECT_EQ(gpu_fault(compatible, visible_gpus(compatible, {})), "") << "cuda-compat is installed";
  const GpuMachine unknown = with_nvml("driver||0\n" + gpu(0));
  EXPECT_EQ(gpu_fault(unknown, visible_gpus(unknown, {})), "");
}

TEST_F(FakeGpus, OldAndFullGpusAreFaultsIfTheyAreUsed) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0) + gpu(1, "Tesla V100-SXM2-16GB", 16 * kGiB, 0, "7.0") +
                                       gpu(2, "NVIDIA A100", 40 * kGiB, 40 * kGiB - kGiB / 2, "8.0") +
                                       "process|999999999|41875931136\n" + gpu(3, "Tesla T4", 15 * kGiB, 0, "7.5"));
  const auto fault = [&](const char* visible) { return gpu_fault(machine, visible_gpus(machine, visible)); };
  EXPECT_EQ(fault("0"), "");
  EXPECT_EQ(fault("3"), "");
  EXPECT_TRUE(fault("0,1").starts_with(
      "GPU 1 (Tesla V100-SXM2-16GB, 16 GiB) has compute capability 7.0, but this build is for 7.5 and newer\n"))
      << fault("0,1");
  EXPECT_TRUE(fault("2").starts_with("GPU 2 (NVIDIA A100, 40 GiB) is full: 512 MiB of 40 GiB are free, and a rank needs "
                                     "1.0 GiB before it has any tensor\n  it is used by process 999999999 (39 GiB); "))
      << fault("2");
}

TEST_F(FakeGpus, MixedAndBusyGpusDrawWarnings) {
  const GpuMachine machine =
      with_nvml(kDriver580 + gpu(0) + gpu(1, "NVIDIA A100", 40 * kGiB, 20 * kGiB, "8.0") + "process|999999999|21474836480\n" +
                gpu(2));
  const auto warnings = [&](const char* visible) { return gpu_warnings(machine, visible_gpus(machine, visible), false); };
  EXPECT_TRUE(warnings("0,2").empty());
  ASSERT_EQ(warnings("0,1,2").size(), 2U);
  EXPECT_TRUE(warnings("0,1,2")[0].starts_with("the ranks use different GPUs, NVIDIA H100 80GB HBM3 (80 GiB) and NVIDIA "
                                               "A100 (40 GiB): "));
  EXPECT_EQ(warnings("1"), std::vector<std::string>{"GPU 1 (NVIDIA A100, 40 GiB): 20 GiB of 40 GiB are in use, by process "
                                                    "999999999 (20 GiB)"});
  setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  ASSERT_EQ(warnings("0").size(), 1U);
  EXPECT_NE(warnings("0")[0].find("CUDA_DEVICE_ORDER is FASTEST_FIRST"), std::string::npos);
  unsetenv("CUDA_DEVICE_ORDER");
}

TEST_F(FakeGpus, Bf16OnAGpuWithoutItDrawsAWarning) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0) + gpu(1, "Tesla T4", 15 * kGiB, 0, "7.5"));
  const auto warnings = [&](const char* visible, bool bf16) {
    return gpu_warnings(machine, visible_gpus(machine, visible), bf16);
  };
  EXPECT_TRUE(warnings("1", false).empty());
  EXPECT_TRUE(warnings("0", true).empty());
  EXPECT_EQ(warnings("1", true), std::vector<std::string>{"mixed_precision bf16: GPU 1 (Tesla T4, 15 GiB) has no bf16 "
                                                          "instructions, so bf16 is emulated there; fp16 is faster"});
}

TEST_F(FakeGpus, WithoutNvmlAnOldDriverDrawsAWarningWithBothVersions) {
  put("dev/nvidia0", "");
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 2023");
  const GpuMachine old = without_nvml();
  EXPECT_EQ(gpu_fault(old, visible_gpus(old, {})), "") << "cuda-compat may be installed";
  ASSERT_EQ(gpu_warnings(old, visible_gpus(old, {}), true).size(), 1U);
  EXPECT_EQ(gpu_warnings(old, visible_gpus(old, {}), true)[0],
            "the NVIDIA driver 535.104.05 is older than 580, which CUDA 13.0 of this build needs. Only the package "
            "cuda-compat-13-0 in the image makes it sufficient.");
  put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025");
  const GpuMachine current = without_nvml();
  EXPECT_TRUE(gpu_warnings(current, visible_gpus(current, {}), true).empty());
}

}  // namespace
}  // namespace trainer::testing
