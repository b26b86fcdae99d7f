#include "engine/launch/rank_places.h"

#include "engine/base/errors.h"
#include "engine/launch/address.h"
#include "tests/base/fake_gpus.h"

namespace trainer::launch {
namespace {

using testing::kDriver580;

class RankPlaces : public testing::FakeGpus {
 protected:
  RankPlaces() {
    config_.distributed_type = config::DistributedType::kMultiGpu;
    config_.num_processes = 2;
    config_.training.ddp_backend = config::DdpBackend::kNccl;
  }
  std::vector<RankPlace> places(const GpuMachine& machine, const std::vector<PeerPlace>& peers = {}) {
    return rank_places(config_, machine, {}, peers, root_);
  }
  /// Peers that were given these GPUs.
  static std::vector<PeerPlace> given(const std::vector<std::string>& gpus) {
    std::vector<PeerPlace> peers;
    for (const std::string& gpu : gpus) peers.push_back({own_place().cpus, gpu});
    return peers;
  }
  /// The message of the refusal.
  std::string refusal(const GpuMachine& machine, const std::vector<PeerPlace>& peers) {
    try {
      places(machine, peers);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }

  config::Config config_;
};

TEST_F(RankPlaces, NothingRestrictsRanksThatSeeAllGpus) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0) + gpu(1));
  EXPECT_TRUE(places(machine).empty());
  EXPECT_EQ(gpus_in_use(config_, machine, {}, {}).size(), 2U);
}

TEST_F(RankPlaces, EachRankSeesItsOwnMigInstance) {
  const GpuMachine machine =
      with_nvml(kDriver580 + gpu(0) + "mig|MIG-a|1|0|21474836480|0\nmig|MIG-b|2|0|21474836480|0\n");
  const auto found = places(machine);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].gpu, "MIG-a");
  EXPECT_EQ(found[1].gpu, "MIG-b");
  EXPECT_EQ(found[0].ranks_on_gpu, 1);
  EXPECT_FALSE(found[0].cpus);
  EXPECT_EQ(gpus_in_use(config_, machine, {}, found).size(), 2U);
}

TEST_F(RankPlaces, SharedInstancesAreCounted) {
  config_.num_processes = 3;
  config_.training.ddp_backend = config::DdpBackend::kGloo;
  const GpuMachine machine =
      with_nvml(kDriver580 + gpu(0) + "mig|MIG-a|1|0|21474836480|0\nmig|MIG-b|2|0|21474836480|0\n");
  const auto found = places(machine);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[2].gpu, "MIG-a");
  EXPECT_EQ(found[2].ranks_on_gpu, 2);
  EXPECT_EQ(gpus_in_use(config_, machine, {}, found).size(), 2U);
}

TEST_F(RankPlaces, TasksOfSrunKeepTheirGpus) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0) + gpu(1));
  const auto found = places(machine, given({"GPU-0000aaa1-1111", "GPU-0000aaa0-1111"}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].gpu, "GPU-0000aaa1-1111");
  EXPECT_EQ(found[1].gpu, "GPU-0000aaa0-1111");
  EXPECT_TRUE(found[0].cpus);
  EXPECT_EQ(gpus_in_use(config_, machine, {}, found).front().gpu->number, 1);
}

TEST_F(RankPlaces, GpusOutOfReachAreRefused) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0));  // cgroups hide the other task's
  EXPECT_TRUE(refusal(machine, given({"GPU-0000aaa0-1111", "GPU-0000aaa1-1111"}))
                  .starts_with("process 1 of this machine was given the GPU GPU-0000aaa1-1111, which process 0, which "
                               "starts all ranks, can't reach: it has GPU-0000aaa0-1111\n"));
}

TEST_F(RankPlaces, OneGpuForSeveralTasksIsRefusedUnlessTheyShareIt) {
  const GpuMachine machine = with_nvml(kDriver580 + gpu(0));
  const auto peers = given({"GPU-0000aaa0-1111", "GPU-0000aaa0-1111"});
  EXPECT_TRUE(
      refusal(machine, peers).starts_with("the 2 processes of this machine were given 1 GPU, and each needs its own\n"));
  config_.training.ddp_backend = config::DdpBackend::kGloo;
  EXPECT_EQ(refusal(machine, peers), "");
  config_.use_cpu = true;
  EXPECT_EQ(places(machine, peers).size(), 2U) << "their CPUs";
}

TEST_F(RankPlaces, AffinityIsThatOfTheGpusNode) {
  config_.enable_cpu_affinity = true;
  cpu_set_t own = own_place().cpus;
  int first = 0;
  while (!CPU_ISSET(first, &own)) ++first;
  put("sys/bus/pci/devices/0000:18:00.0/numa_node", "3\n");
  put("sys/devices/system/node/node3/cpulist", fmt::format("{},1000-1003\n", first));
  const auto found = places(with_nvml(kDriver580 + gpu(0) + gpu(1)));
  ASSERT_EQ(found.size(), 2U);
  ASSERT_TRUE(found[0].cpus);
  EXPECT_EQ(CPU_COUNT(&*found[0].cpus), 1);
  EXPECT_TRUE(CPU_ISSET(first, &*found[0].cpus));
  EXPECT_FALSE(found[1].cpus) << "its node is unknown";
  EXPECT_EQ(found[0].gpu, "") << "it still sees both GPUs";
}

TEST(Interface, IsFoundByItsAddress) {
  EXPECT_EQ(interface_of("127.0.0.1"), "lo");
  EXPECT_EQ(interface_of("192.0.2.77"), "");
}

}  // namespace
}  // namespace trainer::launch
