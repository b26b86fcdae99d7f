// Simulates two machines: two supervisors that meet on 127.0.0.1, with scripted ranks.
#include <nlohmann/json.hpp>

#include "engine/launch/line.h"
#include "tests/launch/several_machines.h"
#include "tests/support/bare_checkpoint.h"

namespace trainer::launch {
namespace {

class TwoMachines : public SeveralMachines {
 protected:
  TwoMachines() : SeveralMachines(2, 2) {}

  std::pair<int, int> run_both(const std::map<std::string, std::string>& behaviors) {
    start(1, behaviors);
    start(0, behaviors);
    const int first = finish(0);
    return {first, finish(1)};
  }
  void wait_for_all_ranks(const std::string& note) {
    for (int rank = 0; rank < 4; ++rank) wait_for_note(fmt::format("{}-{}", note, rank));
  }

  /// Starts both machines, without the notes of earlier runs, and waits until all ranks do `fake`.
  void start_again(const std::string& fake) {
    forget_notes();
    for (const int number : {0, 1}) start(number, {{"FAKE", fake}});
    wait_for_all_ranks("ready");
  }
};

using Codes = std::pair<int, int>;

TEST_F(TwoMachines, ShareOneStoreAndEndWell) {
  EXPECT_EQ(run_both({{"FAKE", "use_store"}}), Codes(0, 0)) << screen(0) << screen(1);
  EXPECT_TRUE(said(0, "waiting for machine 1 of 2 at 127.0.0.1:")) << screen(0);
  EXPECT_TRUE(said(1, "machine 1 of 2: looking for machine 0 at 127.0.0.1:")) << screen(1);
  EXPECT_FALSE(said(0, "warning")) << screen(0);
  EXPECT_FALSE(anyone_left());
}

TEST_F(TwoMachines, RanksGetTheirEnvironment) {
  EXPECT_EQ(run_both({{"FAKE", "note_environment"}}), Codes(0, 0)) << screen(0) << screen(1);
  EXPECT_EQ(read_file(folder_ / "notes/environment-3"),
            "LOCAL_RANK=1\nWORLD_SIZE=4\nLOCAL_WORLD_SIZE=2\nTRAINER_ADDRESS=127.0.0.1\nTRAINER_KEEPERS=\n"
            "TRAINER_SECRET=\nNCCL_SOCKET_IFNAME==lo\nTRAINER_OWN_GPU=\nCUDA_VISIBLE_DEVICES=\n");
}

TEST_F(TwoMachines, NcclUsesTheInterfaceOfTheUser) {
  EXPECT_EQ(run_both({{"FAKE", "note_environment"}, {"NCCL_SOCKET_IFNAME", "^docker0"}}), Codes(0, 0)) << screen(0);
  EXPECT_NE(read_file(folder_ / "notes/environment-3").find("NCCL_SOCKET_IFNAME=^docker0\n"), std::string::npos);
}

TEST_F(TwoMachines, AFailureEndsBothWithOneCause) {
  EXPECT_EQ(run_both({{"FAKE", "hang"}, {"FAKE_3", "fail:5"}}), Codes(5, 5)) << screen(0) << screen(1);
  for (const int number : {0, 1}) {
    EXPECT_TRUE(said(number, "trainer: rank 3 on machine 1 (")) << screen(number);
    EXPECT_TRUE(said(number, ", 127.0.0.1), before the first step: the model is broken")) << screen(number);
  }
  EXPECT_FALSE(anyone_left());
}

TEST_F(TwoMachines, AFailureOnTheLeaderEndsBothToo) {
  testing::leave_bare_checkpoint(output(), 1);
  EXPECT_EQ(run_both({{"FAKE", "lose_peer"}, {"FAKE_0", "kill:9"}}), Codes(137, 137)) << screen(0) << screen(1);
  EXPECT_TRUE(said(1, "trainer: rank 0 on machine 0 (")) << screen(1);
  EXPECT_EQ(nlohmann::json::parse(read_file(output() / "outcome.json"))["code"], 137);
  EXPECT_FALSE(anyone_left());
}

TEST_F(TwoMachines, AMachineThatDiesIsNamed) {
  for (const int victim : {1, 0}) {
    start_again("hang:stubborn");
    kill(pid_of(victim), SIGKILL);
    EXPECT_EQ(finish(1 - victim), 6) << screen(1 - victim);
    EXPECT_TRUE(said(1 - victim, fmt::format("trainer: machine {} (", victim))) << screen(1 - victim);
    EXPECT_TRUE(said(1 - victim, "was lost: ")) << screen(1 - victim);
    EXPECT_EQ(finish(victim), 137);
    EXPECT_FALSE(anyone_left());
  }
}

TEST_F(TwoMachines, AMachineThatIsSilentIsLost) {
  patience_.silence = milliseconds(2500);
  start(0, {{"FAKE", "hang:stubborn"}});
  start(1, {{"FAKE", "hang:stubborn"}});
  wait_for_all_ranks("ready");
  kill(pid_of(1), SIGSTOP);
  EXPECT_EQ(finish(0), 6) << screen(0);
  EXPECT_TRUE(said(0, "was lost: it was silent for 2.5 s")) << screen(0);
  kill(pid_of(1), SIGCONT);
  EXPECT_EQ(finish(1), 6) << screen(1);  // it received the verdict, or noticed that the leader is gone
  EXPECT_FALSE(anyone_left());
}

TEST_F(TwoMachines, AStopSignalToEitherStopsBoth) {
  for (const int asked : {0, 1}) {
    start_again("train");
    kill(pid_of(asked), SIGTERM);
    EXPECT_EQ(finish(0), 143) << screen(0);
    EXPECT_EQ(finish(1), 143) << screen(1);
    for (const int number : {0, 1}) EXPECT_TRUE(said(number, "checkpoint-7")) << screen(number);
    for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(fs::exists(folder_ / fmt::format("notes/signal-{}", rank)));
  }
  EXPECT_FALSE(anyone_left());
}

TEST_F(TwoMachines, ASignalToEachIsOneRequest) {
  patience_.together = milliseconds(0);  // each machine got only one
  for (const int first : {0, 1}) {
    start_again("train:300");
    kill(pid_of(first), SIGTERM);
    usleep(20'000);
    kill(pid_of(1 - first), SIGTERM);
    EXPECT_EQ(finish(0), 143) << screen(0);
    EXPECT_EQ(finish(1), 143) << screen(1);
    EXPECT_FALSE(said(0, "not saving")) << screens();
    EXPECT_TRUE(fs::exists(output() / "checkpoint-7")) << screens();
    fs::remove_all(output());
  }
}

TEST_F(TwoMachines, ASecondSignalKillsBothAtOnce) {
  patience_.together = milliseconds(0);
  start(0, {{"FAKE", "hang:stubborn"}});
  start(1, {{"FAKE", "hang:stubborn"}});
  wait_for_all_ranks("ready");
  kill(pid_of(1), SIGTERM);
  wait_for([&] { return said(0, "once more to stop at once") && said(1, "once more to stop at once"); });
  kill(pid_of(1), SIGTERM);
  EXPECT_EQ(finish(0), 143) << screen(0);
  EXPECT_EQ(finish(1), 143) << screen(1);
  EXPECT_FALSE(anyone_left());
}

TEST_F(TwoMachines, ADifferentSecretIsRejectedAndTheMeetingContinues) {
  start(0, {{"FAKE", "finish"}});
  environment_["TRAINER_SECRET"] = "another";
  patience_.join = milliseconds(1000);
  start(1, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(1), 6) << screen(1);
  EXPECT_TRUE(said(0, "was rejected: 127.0.0.1 has a different secret")) << screen(0);
  EXPECT_TRUE(said(1, "has a different secret")) << screen(1);
  environment_["TRAINER_SECRET"] = "a secret";
  patience_.join = std::chrono::seconds(60);
  start(1, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(0), 0) << screen(0);
  EXPECT_EQ(finish(1), 0) << screen(1);
}

TEST_F(TwoMachines, DifferencesAreReportedBeforeAnyRankStarts) {
  start(0, {{"FAKE", "finish"}});
  plan_.config.seed = 1;
  plan_.config.training.learning_rate = 1;
  start(1, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(0), 2) << screen(0);
  EXPECT_EQ(finish(1), 2) << screen(1);
  for (const int number : {0, 1}) {
    EXPECT_TRUE(said(number, "the machines differ:\n  seed: 42 () on machine 0, 1 () on machine 1\n"))
        << screen(number);
    EXPECT_TRUE(said(number, "  training.learning_rate: ")) << screen(number);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "notes"));
}

TEST_F(TwoMachines, AnUnsharedOutputFolderIsReportedOnAll) {
  start(0, {{"FAKE", "note_environment"}});
  plan_.config.output_dir = (folder_ / "elsewhere").string();
  start(1, {{"FAKE", "note_environment"}});
  EXPECT_EQ(finish(0), 0) << screen(0);
  EXPECT_EQ(finish(1), 0) << screen(1);
  for (const int number : {0, 1}) {
    EXPECT_TRUE(said(number, "output_dir is not shared: machine 0 keeps the checkpoints")) << screen(number);
    EXPECT_TRUE(said(number, "  machine 1 (")) << screen(number);
  }
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_NE(read_file(folder_ / fmt::format("notes/environment-{}", rank)).find("TRAINER_KEEPERS=2\n"),
              std::string::npos);
}

TEST_F(TwoMachines, AFailedPreparationEndsBoth) {
  prepare_ = [] { return Preparation{}; };
  start(0, {{"FAKE", "finish"}});
  prepare_ = [] { return Preparation{3, "no such file: a.txt"}; };
  start(1, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(0), 3) << screen(0);
  EXPECT_EQ(finish(1), 3) << screen(1);
  for (const int number : {0, 1}) EXPECT_TRUE(said(number, "no such file: a.txt")) << screen(number);
  EXPECT_TRUE(fs::is_empty(folder_ / "notes"));
}

TEST_F(TwoMachines, AStopSignalDuringPreparationStopsBoth) {
  prepare_ = [] { return Preparation{}; };
  start(0, {{"FAKE", "finish"}});
  prepare_ = [this] {
    std::ofstream(folder_ / "notes/preparing") << "";
    sleep(60);
    return Preparation{};
  };
  start(1, {{"FAKE", "finish"}});
  wait_for_note("preparing");
  kill(pid_of(1), SIGTERM);
  EXPECT_EQ(finish(1), 143) << screen(1);
  EXPECT_EQ(finish(0), 143) << screen(0);
  EXPECT_FALSE(said(0, "was lost")) << screen(0);
}

TEST_F(TwoMachines, AMissingMachineIsNamed) {
  patience_.join = milliseconds(300);
  start(0, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(0), 6) << screen(0);
  EXPECT_TRUE(said(0, "machine 1 of 2 did not connect to 127.0.0.1:")) << screen(0);
  start(1, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(1), 6) << screen(1);
  EXPECT_TRUE(said(1, "machine 0 was not reached at 127.0.0.1:")) << screen(1);
}

TEST_F(TwoMachines, WaitingCanBeStopped) {
  start(0, {{"FAKE", "finish"}});
  wait_for([&] { return said(0, "waiting for machine 1"); });
  kill(pid_of(0), SIGTERM);
  EXPECT_EQ(finish(0), 143) << screen(0);
}

TEST_F(TwoMachines, StrangersDoNotDisturbTheMeeting) {
  start(0, {{"FAKE", "use_store"}});
  wait_for([&] { return said(0, "waiting for machine 1"); });
  const Address address = resolve("127.0.0.1", static_cast<int>(plan_.config.main_process_port)).at(0);
  std::vector<FileDescriptor> strangers;
  const std::vector<std::string> greetings{
      "GET / HTTP/1.1\r\n\r\n",
      std::string(100, '\xff'),
      std::string(100, '\0'),
      "",
      encode_frame({.op = LinkOp::kSet, .strings = {"key", "value"}}),
      encode_frame({.op = LinkOp::kHello, .strings = {"trainer machines 1", "short"}})};
  for (const std::string& greeting : greetings) {
    strangers.push_back(connect_to(address, 1000));
    EXPECT_EQ(::send(strangers.back().get(), greeting.data(), greeting.size(), 0),
              static_cast<ssize_t>(greeting.size()));
  }
  start(1, {{"FAKE", "use_store"}});
  EXPECT_EQ(finish(0), 0) << screen(0);
  EXPECT_EQ(finish(1), 0) << screen(1);
  EXPECT_TRUE(said(0, "is not a machine of this run")) << screen(0);
}

TEST_F(TwoMachines, ADuplicateMachineNumberIsRejected) {
  plan_.config.num_machines = 4;
  start(0, {{"FAKE", "finish"}});
  start(1, {{"FAKE", "finish"}});
  wait_for([&] { return said(0, ") of 4 is connected"); });
  const pid_t first = std::exchange(pid_of(1), -1);
  start(1, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(1), 6) << screen(1);
  EXPECT_TRUE(said(1, "is already connected: every machine needs its own --node_rank")) << screen(1);
  pid_of(1) = first;
}

TEST_F(TwoMachines, TheProcessThatHoldsThePortIsNamed) {
  const FileDescriptor listener =
      listen_on(resolve("127.0.0.1", static_cast<int>(plan_.config.main_process_port)).at(0));
  start(0, {{"FAKE", "finish"}});
  EXPECT_EQ(finish(0), 4) << screen(0);
  EXPECT_TRUE(said(0, fmt::format("cannot listen on 127.0.0.1:{}: the port is in use by process {} (launch_test)\n",
                                  plan_.config.main_process_port, getpid())))
      << screen(0);
}

TEST_F(TwoMachines, AMissingInterfaceIsReportedAtOnce) {
  environment_["GLOO_SOCKET_IFNAME"] = "none0";
  for (const int number : {0, 1}) {
    start(number, {{"FAKE", "finish"}});
    EXPECT_EQ(finish(number), 4) << screen(number);
    EXPECT_TRUE(said(number, "GLOO_SOCKET_IFNAME is none0, but this machine has no such interface")) << screen(number);
    // In the order of their names: "lo" is not always the last one.
    EXPECT_TRUE(said(number, " lo,") || said(number, " lo\n")) << screen(number);
  }
}

TEST_F(TwoMachines, AMachineThatLooksForMachine0ReportsIt) {
  start(1, {{"FAKE", "finish"}});
  wait_for([&] { return said(1, "machine 1 of 2: still looking for machine 0, for 55 s more: 127.0.0.1:"); });
  EXPECT_TRUE(said(1, ": nothing listens there")) << screen(1);
  start(0, {{"FAKE", "finish"}});
  for (const int number : {0, 1}) EXPECT_EQ(finish(number), 0) << screens();
}

}  // namespace
}  // namespace trainer::launch
