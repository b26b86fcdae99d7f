// gpu_ids: which GPUs the ranks of a machine run on. The machine is simulated: the tests need no GPU.
#include "engine/config/machine/device.h"
#include "tests/config/given.h"

namespace trainer::config {
namespace {

class GpuIds : public Given {
 protected:
  static std::string file(const std::string& ids, int ranks = 2) {
    return fmt::format(
        "distributed_type: MULTI_GPU\nnum_processes: {}\nmodel: {{path: m}}\ndata: {{train: {{path: a}}}}\ngpu_ids: "
        "{}\n",
        ranks, ids);
  }
  /// Resolved without a run, as by `trainer check`: needs no GPUs.
  Config config(const std::string& text, const std::vector<Override>& overrides = {}) {
    return resolve_plan({.file = write("f.yaml", text), .job_file = "", .overrides = overrides, .to_run = false})
        .config;
  }
  std::string refusal(const std::string& text) {
    try {
      config(text);
      return "";
    } catch (const ConfigError& error) {
      const std::string all = without_folder(error.what());  // the missing GPUs are reported before it
      return all.substr(all.rfind('\n') + 1);
    }
  }
};

TEST_F(GpuIds, BecomeTheVisibleDevicesOfTheRanks) {
  for (const char* ids : {"0,2", "'0, 2'", "[0, 2]"}) EXPECT_EQ(visible_devices(config(file(ids))), "0,2") << ids;
  for (const char* ids : {"all", "ALL", "null", "''"}) EXPECT_EQ(visible_devices(config(file(ids))), "") << ids;
  EXPECT_EQ(visible_devices(config(file("3", 1))), "3") << "Accelerate expects text, people write a number";
  EXPECT_EQ(visible_devices(config(file("all"), {{"gpu_ids", "1,3", "--gpu_ids"}})), "1,3");
  EXPECT_EQ(visible_devices(config(file("'GPU-8a56,MIG-77'"))), "GPU-8a56,MIG-77");
  EXPECT_EQ(visible_devices(config(file("0,1,2,3"))), "0,1,2,3") << "the first two are used";
}

TEST_F(GpuIds, HaveNoEffectOnTheCpu) {
  const std::string text = file("0,2");
  EXPECT_EQ(visible_devices(resolve(text, {{"use_cpu", "true", "--cpu"}}).config), "");
  EXPECT_EQ(warnings(text, {{"use_cpu", "true", "--cpu"}}),
            "f.yaml:5:10: gpu_ids has no effect unless ranks train on GPUs\n");
  EXPECT_EQ(warnings(file("all"), {{"use_cpu", "true", "--cpu"}}), "");
}

TEST_F(GpuIds, MustBeGpusOneForEachRank) {
  EXPECT_EQ(refusal(file("0,one")),
            "f.yaml:5:10: gpu_ids is 0,one, and 'one' is not the index of a GPU: use for example 0,2 or all");
  EXPECT_EQ(refusal(file("0,-1")),
            "f.yaml:5:10: gpu_ids is 0,-1, and '-1' is not the index of a GPU: use for example 0,2 or all");
  EXPECT_EQ(refusal(file("1,1")), "f.yaml:5:10: gpu_ids is 1,1, which lists GPU 1 twice: each rank needs its own GPU");
  EXPECT_EQ(refusal(file("0,2", 4)),
            "f.yaml:5:10: gpu_ids is 0,2, which is 2 GPUs, but each machine runs 4 ranks, and each needs one: list 4 "
            "GPUs, or set num_processes to 2");
  EXPECT_EQ(refusal(file("0,2", 4) + "num_machines: 2\nmain_process_ip: a\n"), "") << "of each machine";
  EXPECT_EQ(refusal(file("0", 2) + "training: {ddp_backend: gloo}\n"), "") << "ranks may share one under Gloo";
}

/// GPUs with UUIDs GPU-0…, GPU-1….
GpuMachine machine_of(int count) {
  GpuMachine machine{.gpus = {}, .driver = "580.65.06"};
  for (int i = 0; i < count; ++i)
    machine.gpus.push_back(
        {.number = i, .name = "NVIDIA H100", .uuid = fmt::format("GPU-{}", i), .total_bytes = int64_t{80} << 30});
  return machine;
}

TEST_F(GpuIds, MustExistAndBeVisible) {
  const Config of_two = config(file("0,2"));
  const GpuMachine four = machine_of(4);
  EXPECT_EQ(unusable_gpu_ids(of_two, four, {}), "");
  EXPECT_EQ(unusable_gpu_ids(of_two, machine_of(2), {}), "but this machine has no GPU 2: it has 2, numbered from 0");
  EXPECT_EQ(unusable_gpu_ids(config(file("'GPU-0,GPU-9'")), four, {}),
            "but this machine has no GPU GPU-9: it has 4 (nvidia-smi -L lists their names)");
  for (const char* visible : {"2, 0", "GPU-2,GPU-0"}) EXPECT_EQ(unusable_gpu_ids(of_two, four, visible), "") << visible;
  for (const char* visible : {"2,3", "", "-1", "GPU-2", "2,9,0"})
    EXPECT_EQ(unusable_gpu_ids(of_two, four, visible),
              fmt::format("but CUDA_VISIBLE_DEVICES is '{}', which excludes GPU 0: make them agree, or leave gpu_ids "
                          "out",
                          visible));
  EXPECT_EQ(unusable_gpu_ids(config(file("all")), machine_of(0), "7"), "") << "names none";
}

TEST_F(GpuIds, DecideWhichRankUsesWhichGpu) {
  const GpuMachine four = machine_of(4);
  const auto line = [&](const std::string& text, const std::optional<std::string>& visible = {}) {
    const Config c = config(text);
    return gpus_text(c, four, gpus_of_ranks(c, four, visible));
  };
  EXPECT_EQ(line(file("all")),
            "the 2 ranks of this machine train, in their order, on GPUs 0 and 1 (NVIDIA H100, 80 GiB each), driver "
            "580.65.06");
  EXPECT_EQ(line(file("3,1"), "1,3"),
            "the 2 ranks of this machine train, in their order, on GPUs 3 and 1 (NVIDIA H100, 80 GiB each), driver "
            "580.65.06");
  EXPECT_EQ(line(file("all", 1), "GPU-2"), "training on GPU 2 (NVIDIA H100, 80 GiB), driver 580.65.06");
  EXPECT_EQ(line(file("1", 2) + "training: {ddp_backend: gloo}\n"),
            "the 2 ranks of this machine share GPU 1 (NVIDIA H100, 80 GiB), driver 580.65.06");
}

}  // namespace
}  // namespace trainer::config
