// What must be the same on all machines of a run.
#include "engine/launch/introduction.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/launch/address.h"

namespace trainer::launch {
namespace {

config::Plan plan() {
  config::Plan plan;
  plan.config.num_machines = 2;
  plan.config.num_processes = 4;
  plan.config.output_dir = "/runs/a";
  plan.origins["seed"] = "f.yaml:3:7";
  return plan;
}

Introduction introduction(const config::Plan& plan) {
  return introduction_of(to_message(introduce(plan, FAKE_WORKER)));
}

TEST(Introduction, RoundTrips) {
  config::Plan second = plan();
  second.config.machine_rank = 1;
  const Introduction found = introduction(second);
  EXPECT_EQ(found.machine, 1);
  EXPECT_EQ(found.machines, 2);
  EXPECT_EQ(found.build.size(), 40u) << "the linker's build id: " << found.build;
  EXPECT_GT(found.settings.size(), 100u);
}

TEST(Introduction, NamesItsJob) {
  EXPECT_EQ(introduction(plan()).job, "");
  Introduction own = introduce(plan(), FAKE_WORKER);
  own.job = "SLURM job 7, step 0";
  EXPECT_EQ(introduction_of(to_message(own)).job, "SLURM job 7, step 0");
}

TEST(Introduction, TellsTheHighestLeaderEpochThatItHasFollowed) {
  Introduction own = introduce(plan(), FAKE_WORKER);
  EXPECT_EQ(introduction_of(to_message(own)).epoch, 0);
  own.epoch = 7;
  EXPECT_EQ(introduction_of(to_message(own)).epoch, 7);
}

TEST(Introduction, ReportsADifferentClock) {
  Introduction follower = introduction(plan());
  EXPECT_NEAR(follower.ahead, 0, 1);
  EXPECT_EQ(about_clock(follower, "machine 1"), "");
  follower.ahead = 3600;
  EXPECT_EQ(about_clock(follower, "machine 1"),
            "the clock of machine 1 is 3600 s ahead of machine 0's: times in their logs cannot be compared");
  follower.ahead = -60;
  EXPECT_NE(about_clock(follower, "machine 1").find("60 s behind machine 0's"), std::string::npos);
}

TEST(Introduction, ReportsDifferentGpus) {
  Introduction leader = introduction(plan()), follower = leader;
  EXPECT_EQ(leader.gpus, "") << "trains on the CPU";
  EXPECT_EQ(about_gpus(leader, follower, "machine 1"), "");
  leader.gpus = "NVIDIA H100 (80 GiB)";
  EXPECT_EQ(about_gpus(leader, follower, "machine 1"), "") << "unknown";
  follower.gpus = leader.gpus;
  EXPECT_EQ(about_gpus(leader, introduction_of(to_message(follower)), "machine 1"), "");
  follower.gpus = "NVIDIA A100 (40 GiB) and NVIDIA H100 (80 GiB)";
  EXPECT_EQ(about_gpus(leader, introduction_of(to_message(follower)), "machine 1"),
            "machines use different GPUs, NVIDIA H100 (80 GiB) here and NVIDIA A100 (40 GiB) and NVIDIA H100 (80 GiB) on "
            "machine 1: the slowest decides the speed, and the smallest how much fits");
}

TEST(Introduction, PathsAndMachineSettingsMayDiffer) {
  config::Plan second = plan();
  second.config.machine_rank = 1;
  second.config.main_process_ip = "head";
  second.config.gpu_ids = {"1", "3"};
  second.config.output_dir = "/mnt/runs/a";
  second.config.model.path = "/mnt/m";
  EXPECT_EQ(differences(introduction(plan()), introduction(second)), std::vector<std::string>());
}

TEST(Introduction, ReportsEveryOtherDifference) {
  config::Plan second = plan();
  second.config.machine_rank = 1;
  second.config.seed = 43;
  second.config.num_processes = 6;
  second.config.lora.emplace();
  Introduction follower = introduction(second);
  follower.build = std::string(40, '0');
  const std::vector<std::string> lines = differences(introduction(plan()), follower);
  const auto has = [&](const std::string& start) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(start); });
  };
  EXPECT_TRUE(has("the build of trainer-worker: "));
  EXPECT_TRUE(has("seed: 42 (f.yaml:3:7) on machine 0, 43 (f.yaml:3:7) on machine 1"));
  EXPECT_TRUE(has("num_processes: 4 () on machine 0, 6 () on machine 1"));
  EXPECT_TRUE(has("lora.r: absent on machine 0, 8 () on machine 1"));
}

TEST(Introduction, RejectsMalformedMessages) {
  const LinkMessage good = to_message(introduce(plan(), FAKE_WORKER));
  for (auto spoil : {+[](LinkMessage& m) { m.op = LinkOp::kReady; }, +[](LinkMessage& m) { m.strings.clear(); },
                     +[](LinkMessage& m) { m.strings.pop_back(); }, +[](LinkMessage& m) { m.number = 0; },
                     +[](LinkMessage& m) { m.number = int64_t{1} << 40; }}) {
    LinkMessage bad = good;
    spoil(bad);
    EXPECT_THROW(introduction_of(bad), PeerError);
  }
}

TEST(Addresses, ResolvesIPv4AndIPv6) {
  const Address four = resolve("127.0.0.1", 80).at(0), six = resolve("::1", 80).at(0);
  EXPECT_EQ(four.text(), "127.0.0.1:80");
  EXPECT_EQ(six.text(), "[::1]:80");
  EXPECT_TRUE(four.is_loopback());
  EXPECT_TRUE(six.is_loopback());
  EXPECT_FALSE(resolve("10.0.0.1", 80).at(0).is_loopback());
  EXPECT_FALSE(resolve("fd00::1", 80).at(0).is_loopback());
  EXPECT_EQ(endpoint_text("fd00::1", 80), "[fd00::1]:80");
  EXPECT_EQ(endpoint_text("head", 80), "head:80");
  EXPECT_THROW(resolve("no such name", 80), PeerError);
  EXPECT_EQ(address_of_interface("lo", four).host(), "127.0.0.1");
  EXPECT_THROW(address_of_interface("none0", four), MachineError);
}

TEST(Addresses, ListensOnlyOnLocalAddresses) {
  EXPECT_THROW(listen_on(resolve("192.0.2.1", 0).at(0)), MachineError);
  const FileDescriptor listener = listen_on(resolve("127.0.0.1", 0).at(0));
  const Address bound = own_address(listener.get());
  EXPECT_THROW(listen_on(bound), MachineError);
  EXPECT_TRUE(connect_to(bound, 1000));
}

/// The message of listen_on() for an unprivileged user who does not hold `other`.
std::string refused_to_nobody(const Address& address, const FileDescriptor& other) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    close(other.get());
    std::string said = setresuid(kNobody, kNobody, kNobody) == 0 ? "nothing" : "cannot become the user nobody";
    try {
      listen_on(address);
    } catch (const MachineError& error) {
      said = error.what();
    }
    const ssize_t count = write(ends[1], said.data(), said.size());
    _exit(count == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  char bytes[1000];
  const ssize_t count = read(ends[0], bytes, sizeof bytes);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return {bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

TEST(Addresses, ReportsMissingPermissions) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can change its user";
  const FileDescriptor listener = listen_on(resolve("127.0.0.1", 0).at(0));
  const std::string taken = refused_to_nobody(own_address(listener.get()), listener);
  EXPECT_NE(taken.find("the port is in use by a process of the user root\n  stop that process, or"), std::string::npos)
      << taken;
  int first = 1024;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first;
  if (first < 2) GTEST_SKIP() << "every user may use all ports";
  const std::string low = refused_to_nobody(resolve("127.0.0.1", first - 1).at(0), listener);
  EXPECT_NE(low.find("this account is not allowed to use ports this low\n  set another main_process_port"),
            std::string::npos)
      << low;
}

}  // namespace
}  // namespace trainer::launch
