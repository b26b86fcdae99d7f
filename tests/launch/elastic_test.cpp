// Runs whose machines join and leave.
#include <nlohmann/json.hpp>

#include "engine/base/folder_lock.h"
#include "engine/launch/admissions.h"
#include "engine/launch/follower.h"
#include "engine/launch/leader.h"
#include "tests/launch/several_machines.h"

namespace trainer::launch {
namespace {

constexpr milliseconds kLongCall{2000};  // for all machines to be there; a successor waits for the lost one too

/// Machines with one rank each. A rank notes each attempt, "life-<number>-<rank>", with the number of ranks.
class Elastic : public SeveralMachines {
 protected:
  explicit Elastic(int machines = 3, int least = 1) : SeveralMachines(machines, 1) {
    plan_.config.min_machines = least;
    plan_.config.max_restarts = 1;
    patience_.last_call = milliseconds(300);
  }

  void wait_for_attempt(int attempt, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      wait_for_note(fmt::format("life-{}-{}", attempt, rank));
      EXPECT_EQ(noted(fmt::format("life-{}-{}", attempt, rank)), std::to_string(ranks)) << screens();
    }
  }
  /// The first attempt after the first one that has `ranks`. On a busy machine, one may come too late for the second
  /// attempt, and joins its next.
  int wait_for_later_attempt_of(int ranks) {
    int attempt = 1;
    wait_for([&] {
      const std::string note = fmt::format("life-{}-0", attempt);
      if (!is_noted(note) || noted(note).empty()) return false;
      if (noted(note) == std::to_string(ranks)) return true;
      ++attempt;
      return false;
    });
    wait_for_attempt(attempt, ranks);
    return attempt;
  }
  /// No machine was admitted or lost for some time.
  void expect_same_attempt(int attempt) {
    usleep(500'000);
    EXPECT_FALSE(is_noted(fmt::format("life-{}-0", attempt + 1))) << screens();
  }
  bool port_is_free() {
    try {
      listen_on(resolve("127.0.0.1", static_cast<int>(plan_.config.main_process_port)).at(0));
      return true;
    } catch (const MachineError&) {
      return false;
    }
  }
};

class FourInPairs : public Elastic {
 protected:
  FourInPairs() : Elastic(4, 1) { plan_.config.parallelism_config.emplace().tp_size = 2; }
};

TEST_F(Elastic, MachinesJoinAndLeave) {
  const Behaviors five{{"FAKE", "live:4"}};
  start(0, five);
  wait_for_attempt(0, 1);
  EXPECT_TRUE(said(0, "1 of 3 machines is enough: others may join at 127.0.0.1:")) << screen(0);
  start(1, five);
  wait_for_attempt(1, 2);
  start(2, five);
  wait_for_attempt(2, 3);
  kill(pid_of(1), SIGKILL);
  EXPECT_EQ(finish(1), 137);
  wait_for_attempt(3, 2);
  EXPECT_TRUE(said(0, "machine 1 (")) << screen(0);
  start(1, five);
  wait_for_attempt(4, 3);
  for (const int number : {0, 1, 2}) EXPECT_EQ(finish(number), 0) << screens();
  EXPECT_TRUE(said(2, "trainer: continuing with more machines, from ")) << screen(2);
  EXPECT_TRUE(said(2, "restart 1 of 1, from ")) << screen(2);
  EXPECT_EQ(nlohmann::json::parse(read_file(output() / "outcome.json"))["restarts"], 1) << "joining costs none";
  EXPECT_FALSE(anyone_left());
  EXPECT_TRUE(port_is_free());
}

TEST_F(Elastic, MachinesThatConnectAtOnceStartTogether) {
  patience_.last_call = std::chrono::seconds(60);
  for (const int number : {2, 0, 1}) start(number, {{"FAKE", "live:0"}});
  for (const int number : {0, 1, 2}) EXPECT_EQ(finish(number), 0) << screens();
  wait_for_attempt(0, 3);
}

TEST_F(Elastic, ALossWithoutRestartsLeftEndsTheRun) {
  patience_.last_call = kLongCall;
  for (const int number : {0, 1}) start(number, {{"FAKE", "live:9"}});
  wait_for_attempt(0, 2);
  kill(pid_of(1), SIGKILL);
  wait_for_attempt(1, 1);
  finish(1);
  start(1, {{"FAKE", "live:9"}});
  wait_for_attempt(2, 2);
  kill(pid_of(1), SIGKILL);
  EXPECT_EQ(finish(0), kGaveUp) << screens();
  EXPECT_TRUE(said(0, "gave up: all 1 restarts (max_restarts) are spent")) << screen(0);
  EXPECT_FALSE(anyone_left());
}

/// With an hour between, a machine that returns five times joins twice.
TEST_F(Elastic, AMachineThatIsLostAgainAndAgainDisturbsTheOthersTwice) {
  plan_.config.max_restarts = 9;
  patience_.rejoin = std::chrono::hours(1);
  start(0, {{"FAKE", "live:99"}});
  wait_for_attempt(0, 1);
  for (int attempt = 1; attempt <= 4; attempt += 2) {  // it joins, and is lost
    start(1, {{"FAKE", "live:99"}});
    wait_for_attempt(attempt, 2);
    kill(pid_of(1), SIGKILL);
    finish(1);
    wait_for_attempt(attempt + 1, 1);
  }
  for (int i = 0; i < 3; ++i) {
    start(1, {{"FAKE", "live:99"}});
    wait_for([&] { return said(1, "joins its next generation"); });
    expect_same_attempt(4);
    kill(pid_of(1), SIGKILL);
    finish(1);
    fs::remove(folder_ / "screen-1");
  }
  EXPECT_TRUE(said(0, "in 3600 s at the earliest, because it has joined and left repeatedly")) << screen(0);
  kill(pid_of(0), SIGTERM);
  EXPECT_EQ(finish(0), 143) << screen(0);
}

TEST(AdmissionsTest, WaitsDoubleUpToAMinuteAndAreForgottenAfterTenMinutes) {
  Admissions admissions(std::chrono::seconds(1));
  Clock::time_point now{};
  std::vector<int64_t> waits;
  for (int i = 0; i < 10; ++i) {
    waits.push_back(admissions.wait_of(1, now) / std::chrono::seconds(1));
    admissions.note(1, now);
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{0, 0, 1, 2, 4, 8, 16, 32, 60, 60}));
  EXPECT_EQ(admissions.wait_of(2, now).count(), 0) << "of another machine";
  EXPECT_EQ(admissions.wait_of(1, now + std::chrono::minutes(11)).count(), 0);
}

TEST_F(Elastic, TooFewMachinesDoNotContinue) {
  plan_.config.min_machines = 2;
  patience_.join = milliseconds(1500);
  for (const int number : {0, 1}) start(number, {{"FAKE", "live:9"}});
  wait_for_attempt(0, 2);
  kill(pid_of(1), SIGKILL);
  EXPECT_EQ(finish(0), 6) << screen(0);
  EXPECT_TRUE(said(0, "machines 1, 2 of 3 did not connect to 127.0.0.1:")) << screen(0);
  EXPECT_TRUE(said(0, "within 1.5 s, and the run needs at least 2 machines")) << screen(0);
  EXPECT_FALSE(anyone_left());
}

TEST_F(Elastic, RejectedMachinesDoNotDisturbTheRun) {
  start(0, {{"FAKE", "live:9"}});
  wait_for_attempt(0, 1);
  environment_["TRAINER_SECRET"] = "another";
  patience_.join = milliseconds(1000);
  start(1, {{"FAKE", "live:9"}});
  EXPECT_EQ(finish(1), 6) << screens();
  EXPECT_TRUE(said(0, "was rejected: 127.0.0.1 has a different secret")) << screen(0);
  environment_["TRAINER_SECRET"] = "a secret";
  patience_.join = std::chrono::seconds(60);
  plan_.config.seed = 1;
  start(1, {{"FAKE", "live:9"}});
  EXPECT_EQ(finish(1), 2) << screens();
  EXPECT_TRUE(said(1, "differs from machine 0:\n  seed: 42 () on machine 0, 1 () on machine 1")) << screen(1);
  plan_.config.seed = 42;
  prepare_ = [] { return Preparation{3, "no such file: a.txt"}; };
  start(1, {{"FAKE", "live:9"}});
  EXPECT_EQ(finish(1), 3) << screens();
  EXPECT_TRUE(said(1, "no such file: a.txt")) << screen(1);
  expect_same_attempt(0);
  kill(pid_of(0), SIGTERM);
  EXPECT_EQ(finish(0), 143) << screen(0);
  EXPECT_FALSE(anyone_left());
}

TEST_F(Elastic, TrainingContinuesWhileANewMachinePrepares) {
  start(0, {{"FAKE", "live:1"}});
  wait_for_attempt(0, 1);
  prepare_ = [this] {
    while (!is_noted("prepared")) usleep(1000);
    return Preparation{};
  };
  start(1, {{"FAKE", "live:1"}});
  wait_for([&] { return said(0, "machine 1 (") && said(1, "joins its next generation"); });
  expect_same_attempt(0);
  std::ofstream(folder_ / "notes/prepared") << "";
  wait_for_attempt(1, 2);
  EXPECT_EQ(finish(0), 0) << screen(0);
  EXPECT_EQ(finish(1), 0) << screen(1);
}

TEST_F(Elastic, AStopIsNotMistakenForAJoin) {
  start(0, {{"FAKE", "live:9"}});
  wait_for_attempt(0, 1);
  start(1, {{"FAKE", "live:9"}});
  wait_for_attempt(1, 2);
  kill(pid_of(1), SIGTERM);
  EXPECT_EQ(finish(0), 143) << screen(0);
  EXPECT_EQ(finish(1), 143) << screen(1);
  EXPECT_FALSE(anyone_left());
}

TEST_F(Elastic, AFollowerSucceedsALostLeader) {
  patience_.last_call = kLongCall;
  const Behaviors two{{"FAKE", "live:2"}};
  for (const int number : {0, 1, 2}) start(number, two);
  wait_for_attempt(0, 3);
  kill(pid_of(0), SIGKILL);
  EXPECT_EQ(finish(0), 137);
  wait_for_attempt(1, 2);
  EXPECT_TRUE(said(1, "machine 1 of 3 leads the run from now on, at 127.0.0.1:")) << screen(1);
  EXPECT_TRUE(said(2, "connected to machine 1 (")) << screen(2);
  start(0, two);
  wait_for_attempt(2, 3);
  EXPECT_TRUE(said(0, "connected to machine 1 (")) << screen(0);
  for (const int number : {0, 1, 2}) EXPECT_EQ(finish(number), 0) << screens();
  EXPECT_EQ(nlohmann::json::parse(read_file(output() / "outcome.json"))["restarts"], 1);
  EXPECT_FALSE(anyone_left());
  EXPECT_TRUE(port_is_free());
}

TEST_F(Elastic, TheSuccessorIsSucceeded) {
  plan_.config.max_restarts = 2;
  patience_.last_call = kLongCall;
  for (const int number : {0, 1, 2}) start(number, {{"FAKE", "live:2"}});
  wait_for_attempt(0, 3);
  kill(pid_of(0), SIGKILL);
  wait_for_attempt(1, 2);
  kill(pid_of(1), SIGKILL);
  wait_for_attempt(2, 1);
  EXPECT_EQ(finish(2), 0) << screens();
  EXPECT_TRUE(said(2, "restart 2 of 2")) << screen(2);
}

TEST_F(Elastic, ALeaderThatIsPausedIsNotSucceeded) {
  patience_.silence = milliseconds(1000);
  patience_.last_call = std::chrono::seconds(60);  // all return
  for (const int number : {0, 1, 2}) start(number, {{"FAKE", "live:1"}});
  wait_for_attempt(0, 3);
  kill(pid_of(0), SIGSTOP);
  wait_for([&] { return said(1, "restart 1 of 1") && said(2, "restart 1 of 1"); });
  usleep(1'500'000);
  for (const int number : {1, 2}) EXPECT_FALSE(said(number, "leads the run")) << screen(number);
  kill(pid_of(0), SIGCONT);
  wait_for_attempt(1, 3);
  for (const int number : {0, 1, 2}) EXPECT_EQ(finish(number), 0) << screens();
}

/// A file server drops the lock of a machine that doesn't respond. Here, a copy of the lock's file takes its place.
TEST_F(Elastic, APausedLeaderThatWasSucceededFindsTheHigherLeaderEpoch) {
  patience_.silence = milliseconds(1000);
  plan_.config.main_process_ip = "127.0.0.2";  // others are at .1, where the paused leader has no port
  for (const int number : {0, 1, 2}) start(number, {{"FAKE", "live:3"}});  // one may come to the third
  wait_for_attempt(0, 3);
  EXPECT_EQ(FolderOwner(output()).epoch(), 1);
  kill(pid_of(0), SIGSTOP);
  fs::copy_file(output() / ".lock", output() / "dropped");
  fs::rename(output() / "dropped", output() / ".lock");
  const int attempt = wait_for_later_attempt_of(2);
  EXPECT_TRUE(said(1, "machine 1 of 3 leads the run from now on") || said(2, "machine 2 of 3 leads the run from now on"))
      << screens();
  EXPECT_EQ(FolderOwner(output()).epoch(), 2);
  kill(pid_of(0), SIGCONT);
  EXPECT_EQ(finish(0), kMachineFailure) << screens();
  EXPECT_TRUE(said(0, "output folder taken over: ")) << screen(0);
  EXPECT_TRUE(said(0, ", leader epoch 2\n  while this run (process ")) << screen(0);
  EXPECT_TRUE(said(0, ", leader epoch 1) was paused or cut off")) << screen(0);
  expect_same_attempt(attempt);
  kill(pid_of(1), SIGTERM);
  for (const int number : {1, 2}) EXPECT_EQ(finish(number), 143) << screens();
  EXPECT_EQ(nlohmann::json::parse(read_file(output() / "outcome.json"))["code"], 143) << "machine 0 wrote it";
}

TEST_F(Elastic, ALeaderOfAnOlderEpochIsNotFollowedAndEnds) {
  const Appointment appointment{.host = "127.0.0.1",
                                .port = static_cast<int>(plan_.config.main_process_port),
                                .sizes = {1, 2, 3},
                                .patience = milliseconds(2000),
                                .key = std::string(32, 'k')};
  Introduction own = introduce(plan_, FAKE_WORKER);
  const pid_t leader = fork();
  if (leader == 0) {
    SignalQueue signals;
    Appointment long_call = appointment;
    long_call.last_call = std::chrono::seconds(60);
    try {
      Leader(long_call, own, signals, 7).gather({});
    } catch (const MachineError& error) {
      std::ofstream(folder_ / "notes/leader") << error.what();
      _exit(error.code());
    }
    _exit(0);
  }
  own.machine = 1;
  own.epoch = 8;
  SignalQueue signals;
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(Follower(appointment, own, signals).join({}), PeerError);
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(shown.find("is of leader epoch 7, but epoch 8 has begun since"), std::string::npos) << shown;
  int status = 0;
  waitpid(leader, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), kMachineFailure);
  const std::string why = noted("leader");
  EXPECT_NE(why.find("machine 0 leads no longer: machine 1 ("), std::string::npos) << why;
  EXPECT_NE(why.find("has followed leader epoch 8, which is higher than its own, 7"), std::string::npos) << why;
}

TEST_F(Elastic, NobodySucceedsInAFolderWithoutTheLeadersLine) {
  patience_.join = milliseconds(3000);
  patience_.last_call = kLongCall;
  for (const int number : {0, 1}) start(number, {{"FAKE", "live:9"}});
  wait_for_attempt(0, 2);
  fs::remove(output() / ".lock");  // as if the file system were gone, and an empty folder in its place
  kill(pid_of(0), SIGKILL);
  EXPECT_EQ(finish(1), 6) << screen(1);
  EXPECT_FALSE(fs::exists(output() / ".lock"));
  EXPECT_TRUE(said(1, "machine 0 was not reached at")) << screen(1);
}

TEST_F(FourInPairs, AnUnusableMachineWaitsForALaterGeneration) {
  for (const int number : {0, 1}) start(number, {{"FAKE", "live:1"}});
  wait_for_attempt(0, 2);
  start(2, {{"FAKE", "live:1"}});
  wait_for([&] { return said(2, "joins its next generation"); });
  expect_same_attempt(0);
  start(3, {{"FAKE", "live:1"}});
  wait_for_attempt(1, 4);
  for (const int number : {0, 1, 2, 3}) EXPECT_EQ(finish(number), 0) << screens();
}

TEST_F(FourInPairs, AWaitingMachineFindsTheSuccessorOfMachine0) {
  for (const int number : {0, 1}) start(number, {{"FAKE", "finish_at:go"}});
  wait_for_note("waits-1");
  start(2, {{"FAKE", "finish_at:go"}});
  wait_for([&] { return said(2, "joins its next generation"); });
  kill(pid_of(0), SIGKILL);
  EXPECT_EQ(finish(0), 137);
  wait_for([&] { return said(1, "restart 1 of 1") && said(2, ") was lost before the ranks were started: "); });
  wait_for([&] { return said(1, "machine 1 of 4 leads the run from now on") && said(2, "connected to machine 1 ("); });
  start(0, {{"FAKE", "finish_at:go"}});
  wait_for([&] { return said(0, "connected to machine 1 ("); });
  std::ofstream(folder_ / "notes/go") << "";
  for (const int number : {0, 1, 2}) EXPECT_EQ(finish(number), 0) << screens();
  EXPECT_FALSE(said(2, "restart")) << screen(2);
  EXPECT_FALSE(anyone_left());
}

TEST_F(FourInPairs, AMachineThatHasNotTakenPartDoesNotLead) {
  for (const int number : {0, 1}) start(number, {{"FAKE", "finish_at:go"}});
  wait_for_note("waits-1");
  patience_.join = milliseconds(1500);
  start(2, {{"FAKE", "finish_at:go"}});
  wait_for([&] { return said(2, "joins its next generation"); });
  for (const int number : {1, 0}) kill(pid_of(number), SIGKILL);
  EXPECT_EQ(finish(2), 6) << screen(2);
  EXPECT_TRUE(said(2, "machine 0 was not reached at 127.0.0.1:")) << screen(2);
}

TEST_F(FourInPairs, AWaitingMachineEndsWhenALossEndsTheRun) {
  plan_.config.max_restarts = 0;
  for (const int number : {0, 1}) start(number, {{"FAKE", "finish_at:go"}});
  wait_for_note("waits-1");
  start(2, {{"FAKE", "finish_at:go"}});
  wait_for([&] { return said(2, "joins its next generation"); });
  kill(pid_of(0), SIGKILL);
  for (const int number : {1, 2}) EXPECT_EQ(finish(number), 6) << screens();
  EXPECT_TRUE(said(2, "was lost before the ranks were started")) << screen(2);
}

TEST_F(FourInPairs, AWaitingMachineEndsWithTheRun) {
  for (const int number : {0, 1}) start(number, {{"FAKE", "finish_at:go"}});
  wait_for_note("waits-1");
  start(2, {{"FAKE", "finish_at:go"}});
  wait_for([&] { return said(2, "joins its next generation"); });
  std::ofstream(folder_ / "notes/go") << "";
  for (const int number : {0, 1, 2}) EXPECT_EQ(finish(number), 0) << screens();
  EXPECT_FALSE(anyone_left());
}

}  // namespace
}  // namespace trainer::launch
