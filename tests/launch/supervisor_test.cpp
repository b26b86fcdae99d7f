#include "engine/launch/run.h"
#include "tests/launch/left_over.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/launch/address.h"
#include "tests/support/bare_checkpoint.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// Runs a supervisor in a separate process, with ranks scripted by `behaviors`.
class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    std::string pattern = (fs::temp_directory_path() / "supervisor_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    fs::create_directories(folder_ / "notes");
    plan_.source = "tests.yaml";
    plan_.config.output_dir = output().string();
    plan_.config.num_processes = 2;
  }
  ~SupervisorTest() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  fs::path output() const { return folder_ / "output"; }

  void start(const std::map<std::string, std::string>& behaviors) {
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(open((folder_ / "stdout").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDOUT_FILENO);
    dup2(open((folder_ / "stderr").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDERR_FILENO);
    if (screen_) dup2(screen_.get(), STDERR_FILENO);
    for (const auto& [name, value] : behaviors) setenv(name.c_str(), value.c_str(), 1);
    setenv("FAKE_NOTES", (folder_ / "notes").c_str(), 1);
    setenv("FAKE_OUTPUT", output().c_str(), 1);
    if (loses_children_) std::thread(take_ends_of_children).detach();
    try {
      _exit(run(plan_, worker_, patience_, {}, {"rank"}, places_));
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      std::fflush(stderr);
      _exit(error.code());
    }
  }

  /// Waits for the end; the exit code, or 128 + the signal that killed the supervisor itself.
  int finish() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  int run_with(const std::map<std::string, std::string>& behaviors) {
    start(behaviors);
    return finish();
  }

  void wait_for_note(const std::string& name) {
    constexpr int kTries =
        60'000;  // one millisecond each: long enough on any machine, short enough to fail instead of hang
    for (int i = 0; i < kTries && !fs::exists(folder_ / "notes" / name); ++i) usleep(1000);
    ASSERT_TRUE(fs::exists(folder_ / "notes" / name)) << "the worker never got there: " << name;
  }

  std::string screen() { return fs::exists(folder_ / "stderr") ? read_file(folder_ / "stderr") : ""; }
  bool on_screen(const std::string& text) { return screen().find(text) != std::string::npos; }

  /// The closing block: from the last line that starts with "trainer:".
  std::string block() {
    const std::string text = "\n" + screen();
    return text.substr(text.rfind("\ntrainer:") + 1);
  }
  size_t block_lines() {
    const std::string text = block();
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  bool anyone_left() { return launch::anyone_left(folder_ / "notes"); }

  nlohmann::json outcome() { return nlohmann::json::parse(read_file(output() / "outcome.json")); }

  fs::path folder_;
  config::Plan plan_;
  Patience patience_;
  std::vector<RankPlace> places_;
  std::string worker_ = FAKE_WORKER;
  FileDescriptor screen_;        // instead of the file
  bool loses_children_ = false;  // a thread takes SIGCHLD
  pid_t pid_ = -1;

 private:
  [[noreturn]] static void take_ends_of_children() {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    const timespec at_once{};
    while (true) sigtimedwait(&ends, nullptr, &at_once);
  }
};

TEST_F(SupervisorTest, EndsOfRanksAreNoticedWithoutTheSignal) {
  loses_children_ = true;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(run_with({{"FAKE", "finish"}}), 0);
  EXPECT_EQ(run_with({{"FAKE_0", "hang:stubborn"}, {"FAKE_1", "kill:9"}}), 128 + SIGKILL);
}

TEST_F(SupervisorTest, ASuccessfulRunIsSilent) {
  testing::leave_bare_checkpoint(output(), 1);
  EXPECT_EQ(run_with({{"FAKE", "finish"}}), 0);
  EXPECT_EQ(screen(), "");
  EXPECT_FALSE(anyone_left());
  EXPECT_EQ(outcome()["code"], 0);
  EXPECT_EQ(outcome()["cause"], "done");
  EXPECT_TRUE(read_file(output() / ".lock").starts_with("process "));  // for an earlier holder that still runs
}

TEST_F(SupervisorTest, RanksDoNotGetTheSecret) {
  EXPECT_EQ(run_with({{"FAKE", "note_environment"}, {"TRAINER_SECRET", "open sesame"}}), 0);
  EXPECT_NE(read_file(folder_ / "notes/environment-0").find("TRAINER_SECRET=\n"), std::string::npos);
}

TEST_F(SupervisorTest, RanksGetNoMoreThreadsThanCpus) {
  cpu_set_t one, before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  plan_.config.num_cpu_threads_per_process = 1000;
  EXPECT_EQ(run_with({{"FAKE_0", "environment"}, {"FAKE", "finish"}}), 0);
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_NE(read_file(folder_ / "stdout").find("OMP_NUM_THREADS=1\n"), std::string::npos);
  EXPECT_TRUE(on_screen("num_cpu_threads_per_process (OMP_NUM_THREADS) is 1000, but 1 CPU can be used")) << screen();
}

TEST_F(SupervisorTest, ServesItsStatus) {
  const std::string any = own_address(try_listen(resolve("127.0.0.1", 0).front()).get()).text();  // a free port
  const int port = std::stoi(any.substr(any.rfind(':') + 1));
  const auto get = [&](const std::string& path) {
    const FileDescriptor socket = connect_to(resolve("127.0.0.1", port).front(), 1000);
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    EXPECT_EQ(send(socket.get(), request.data(), request.size(), 0), std::ssize(request));
    std::string text;
    char bytes[4096];
    pollfd event{socket.get(), POLLIN, 0};
    constexpr int kPatience = 30'000;
    while (poll(&event, 1, kPatience) == 1) {
      const ssize_t count = recv(socket.get(), bytes, sizeof(bytes), 0);
      if (count <= 0) break;
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  };
  plan_.config.logging.metrics_port = port;
  start({{"FAKE", "publish"}});
  for (const char* note : {"updates-0", "updates-1"}) wait_for_note(note);
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get("/readyz").starts_with("HTTP/1.1 503 ")) << "the first update isn't done";
  publish_file(folder_ / "notes" / "go", "");
  for (int i = 0; i < 10'000 && !get("/readyz").starts_with("HTTP/1.1 200 "); ++i) usleep(1000);
  std::string page;
  for (int i = 0; i < 10'000 && page.find("save_failures_total 1\n") == std::string::npos; ++i) page = get("/metrics");
  for (const char* line :
       {"trainer_ready 1\n", "trainer_ranks_alive 2\n", "trainer_loss 2.5\n", "trainer_tokens_total 8\n",
        "trainer_checkpoint_saves_total 1\n", "trainer_checkpoint_save_failures_total 1\n"})
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  publish_file(folder_ / "notes" / "finish", "");
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(on_screen(fmt::format("trainer: metrics at http://127.0.0.1:{}/metrics\n", port))) << screen();
}

TEST_F(SupervisorTest, RanksGetTheirEnvironmentAndThePlan) {
  EXPECT_EQ(run_with({{"FAKE_0", "environment"}, {"FAKE", "finish"}, {"RANK", "77"}, {"OMP_NUM_THREADS", "9"}}), 0);
  EXPECT_EQ(read_file(folder_ / "stdout"),
            "RANK=0\nLOCAL_RANK=0\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=2\nOMP_NUM_THREADS=1\nMKL_NUM_THREADS=1\n"
            "plan=mine\nlink passed on=no\n");
}

TEST_F(SupervisorTest, RanksSeeTheGpusThatTheFileNames) {
  const auto visible = [&] {
    EXPECT_EQ(run_with({{"FAKE", "note_environment"}, {"CUDA_VISIBLE_DEVICES", "0,2,3"}}), 0) << screen();
    const std::string text = read_file(folder_ / "notes" / "environment-1"), name = "CUDA_VISIBLE_DEVICES=";
    return text.substr(text.find(name) + name.size());
  };
  plan_.config.distributed_type = config::DistributedType::kMultiGpu;
  EXPECT_EQ(visible(), "0,2,3\n") << "all: unchanged";
  plan_.config.gpu_ids = {"0", "2"};
  EXPECT_EQ(visible(), "0,2\n");
  plan_.config.use_cpu = true;
  EXPECT_EQ(visible(), "0,2,3\n");
}

TEST_F(SupervisorTest, RanksRunInTheirPlaces) {
  plan_.config.distributed_type = config::DistributedType::kMultiGpu;
  plan_.config.gpu_ids = {"0"};
  places_ = {{.cpus = {}, .gpu = "MIG-a"}, {.cpus = {}, .gpu = "MIG-b", .ranks_on_gpu = 2}};
  EXPECT_EQ(run_with({{"FAKE", "note_environment"}}), 0) << screen();
  EXPECT_NE(read_file(folder_ / "notes" / "environment-0").find("TRAINER_OWN_GPU=1\nCUDA_VISIBLE_DEVICES=MIG-a\n"),
            std::string::npos);
  EXPECT_NE(read_file(folder_ / "notes" / "environment-1").find("TRAINER_OWN_GPU=2\nCUDA_VISIBLE_DEVICES=MIG-b\n"),
            std::string::npos);
}

TEST_F(SupervisorTest, OnlyRankZeroWritesToStandardOutput) {
  plan_.config.num_processes = 3;
  EXPECT_EQ(run_with({{"FAKE", "environment"}}), 0);
  const std::string text = read_file(folder_ / "stdout");
  EXPECT_EQ(text.find("RANK="), text.rfind("\nRANK=") + 1);
  EXPECT_EQ(text.find("RANK=1"), std::string::npos);
}

TEST_F(SupervisorTest, RanksShareTheStore) {
  plan_.config.num_processes = 5;
  EXPECT_EQ(run_with({{"FAKE", "use_store"}}), 0) << screen();
}

TEST_F(SupervisorTest, SixtyFourRanksStart) {
  plan_.config.num_processes = 64;
  EXPECT_EQ(run_with({{"FAKE", "finish"}}), 0) << screen();
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, AKilledRankEndsTheRun) {
  testing::leave_bare_checkpoint(output(), 4);
  testing::leave_bare_checkpoint(output(), 12);
  fs::create_directories(output() / "checkpoint-13.tmp");
  EXPECT_EQ(run_with({{"FAKE_0", "hang:stubborn"}, {"FAKE_1", "kill:9"}}), 128 + SIGKILL);
  EXPECT_FALSE(anyone_left());
  EXPECT_TRUE(block().starts_with("trainer: rank 1, step 5 (backward): killed by signal 9 (SIGKILL)\n")) << screen();
  EXPECT_NE(block().find("out-of-memory"), std::string::npos);
  EXPECT_NE(block().find("checkpoint-12; the same command"), std::string::npos) << block();
  EXPECT_LE(block_lines(), 6u);
  EXPECT_EQ(outcome()["code"], 137);
  EXPECT_EQ(outcome()["cause"], "killed_by_SIGKILL");
  EXPECT_EQ(outcome()["rank"], 1);
  EXPECT_EQ(outcome()["step"], 5);
  EXPECT_EQ(outcome()["checkpoint"], (output() / "checkpoint-12").string());
  EXPECT_EQ(outcome()["retryable"], true);
}

TEST_F(SupervisorTest, CrashesAreNamed) {
  for (auto [signal, name] : {std::pair{SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGTERM, "SIGTERM"}}) {
    EXPECT_EQ(run_with({{"FAKE_1", "hang"}, {"FAKE_0", "kill:" + std::to_string(signal)}}), 128 + signal);
    EXPECT_NE(block().find(fmt::format("({})", name)), std::string::npos) << screen();
    EXPECT_FALSE(anyone_left());
  }
}

TEST_F(SupervisorTest, AFileThatIsTruncatedWhileItIsMappedIsNamed) {
  EXPECT_EQ(run_with({{"FAKE_0", "hang"}, {"FAKE_1", "read_truncated"}}), kInputFailure);
  const std::string file = (folder_ / "notes" / "my weights").string();
  EXPECT_TRUE(block().starts_with("trainer: rank 1, step 5 (backward): cannot read " + file +
                                  ": it was truncated while it was in use, or its disk failed (see `dmesg`)\n  wait for "
                                  "the other program, then run again\n"))
      << screen();
  EXPECT_LE(block_lines(), 6u);
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, AReportedFailureIsTheMessage) {
  EXPECT_EQ(run_with({{"FAKE_0", "hang"}, {"FAKE_1", "fail:5"}}), 5);
  EXPECT_EQ(block(),
            "trainer: rank 1, before the first step: the model is broken\n  why: it is\n"
            "  kept: nothing was written to " +
                output().string() + "\n");
  EXPECT_FALSE(fs::exists(output()));
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, AFailureOfAllRanksIsReportedOnce) {
  plan_.config.num_processes = 3;
  EXPECT_EQ(run_with({{"FAKE", "fail:3"}}), 3);
  EXPECT_EQ(screen(),
            "trainer: the model is broken\n  why: it is\n  kept: nothing was written to " + output().string() + "\n");
}

TEST_F(SupervisorTest, ALostPeerDoesNotHideTheCause) {
  patience_.cause = milliseconds(30'000);  // ends early: no rank is left
  plan_.config.num_processes = 3;
  EXPECT_EQ(run_with({{"FAKE", "lose_peer"}, {"FAKE_2", "kill:9"}}), 137);
  EXPECT_TRUE(block().starts_with("trainer: rank 2, step 5")) << screen();
}

TEST_F(SupervisorTest, LostPeersAreTheCauseWhenThereIsNoOther) {
  EXPECT_EQ(run_with({{"FAKE", "lose_peer"}}), 6);
  EXPECT_NE(block().find("lost a peer"), std::string::npos);
}

TEST_F(SupervisorTest, RanksThatCallDifferentCollectivesEndTheRun) {
  EXPECT_EQ(run_with({{"FAKE_0", "call:8"}, {"FAKE_1", "call:16"}}), 1);
  EXPECT_TRUE(
      block().starts_with("trainer: step 3 (forward): ranks 0 and 1 called different collectives\n"
                          "  rank 0 (step 3, forward): all-gather 2 of 8 Float among all ranks (block.1)\n"
                          "  rank 1 (step 3, forward): all-gather 2 of 16 Float among all ranks (block.1)\n"))
      << screen();
  EXPECT_NE(block().find("please report"), std::string::npos);
  EXPECT_LE(block_lines(), 6u);
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, LostPeersDoNotHideDifferingCollectives) {
  EXPECT_EQ(run_with({{"FAKE_0", "call_then_lose_peer:8"}, {"FAKE_1", "call_then_lose_peer:16"}}), 1);
  EXPECT_NE(block().find("ranks 0 and 1 called different collectives"), std::string::npos) << screen();
}

TEST_F(SupervisorTest, AStoppedRankEndsTheRun) {
  testing::leave_bare_checkpoint(output(), 1);  // otherwise outcome.json is not written
  patience_.watch.frozen = 1;
  EXPECT_EQ(run_with({{"FAKE_0", "call:8"}, {"FAKE_1", "call:stop"}}), 6);
  EXPECT_TRUE(block().starts_with("trainer: rank 1, step 3 (forward): its process has not run for ")) << screen();
  EXPECT_NE(block().find("SIGSTOP"), std::string::npos) << screen();
  EXPECT_NE(block().find("rank 0 waits in all-gather 2 of 8 Float"), std::string::npos) << screen();
  EXPECT_LE(block_lines(), 6u);
  EXPECT_FALSE(anyone_left());
  const nlohmann::json ranks = outcome()["ranks"];
  EXPECT_EQ(ranks[0]["waits"], true);
  EXPECT_EQ(ranks[0]["unit"], "block.1");
  EXPECT_EQ(ranks[1]["collective"], "barrier 1 among all ranks");
  EXPECT_EQ(ranks[1]["step"], 3);
  EXPECT_GE(ranks[1]["seconds_without_beat"], 1);
}

TEST_F(SupervisorTest, ARankThatNeverArrivesEndsTheRun) {
  testing::leave_bare_checkpoint(output(), 1);  // otherwise outcome.json is not written
  patience_.watch.late = 1;
  EXPECT_EQ(run_with({{"FAKE_0", "call:8"}, {"FAKE_1", "finish"}}), 6);
  EXPECT_NE(block().find("others have waited for it"), std::string::npos) << screen();
  EXPECT_EQ(outcome()["rank"], 1);
}

TEST_F(SupervisorTest, TheMissingRankIsTheCauseWhenItsPeerTimesOutFirst) {
  testing::leave_bare_checkpoint(output(), 1);  // otherwise outcome.json is not written
  patience_.watch.tell = 0.5;
  EXPECT_EQ(run_with({{"FAKE_0", "call_then_time_out:8"}, {"FAKE_1", "finish_at:never"}}), 6);
  EXPECT_NE(block().find("others have waited for it"), std::string::npos) << screen();
  EXPECT_EQ(outcome()["rank"], 1);
}

TEST_F(SupervisorTest, ARankThatHangsInAnUpdateEndsTheRun) {
  plan_.config.num_processes = 1;
  testing::leave_bare_checkpoint(output(), 1);  // otherwise outcome.json is not written
  patience_.watch.hung = 1.5;
  EXPECT_EQ(run_with({{"FAKE", std::string("update_then_stay:") + kForwardAndBackward}}), 6);
  EXPECT_TRUE(block().starts_with("trainer: step 60 (forward and backward): it hangs: no progress for ")) << screen();
  EXPECT_TRUE(on_screen("the stack of rank 0, innermost first:\n")) << screen();
  EXPECT_LE(block_lines(), 6u);
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, SlowWorkOutsideOfAnUpdateIsNotAHang) {
  plan_.config.num_processes = 1;
  patience_.watch.hung = 1.5;
  start({{"FAKE", "update_then_stay:reading the next batch"}});
  wait_for_note("stays-0");
  usleep(4'000'000);
  EXPECT_EQ(kill(pid_, SIGTERM), 0);
  EXPECT_EQ(finish(), 143);
  EXPECT_FALSE(on_screen("hang")) << screen();
}

TEST_F(SupervisorTest, ALongWaitIsReportedBeforeItEndsTheRun) {
  patience_.watch.tell = 0.5;
  start({{"FAKE_0", "call:8"}, {"FAKE_1", "hang"}});
  wait_for_note("called-0");
  while (!on_screen("rank 1: others have waited for it")) usleep(1000);
  kill(pid_, SIGKILL);
  EXPECT_EQ(finish(), 128 + SIGKILL);
}

TEST_F(SupervisorTest, QuitShowsWhereTheRanksAre) {
  start({{"FAKE", "call:8"}});
  wait_for_note("called-0");
  wait_for_note("called-1");
  kill(pid_, SIGQUIT);
  while (!on_screen("rank 1 (step 3, forward): waits in all-gather 2 of 8 Float among all ranks (block.1)")) {
    ASSERT_EQ(kill(pid_, 0), 0);
    usleep(1000);
  }
  kill(pid_, SIGKILL);
  finish();
}

TEST_F(SupervisorTest, ARankThatEndsEarlyFails) {
  EXPECT_EQ(run_with({{"FAKE_0", "hang"}, {"FAKE_1", "exit:0"}}), 1);
  EXPECT_NE(block().find("rank 1, before the first step: ended before the run did"), std::string::npos) << screen();
  EXPECT_NE(block().find("please report"), std::string::npos);
}

TEST_F(SupervisorTest, TheLastOutputOfASilentRankIsShown) {
  plan_.config.num_processes = 3;
  EXPECT_EQ(run_with({{"FAKE", "hang"}, {"FAKE_1", "exit:4"}}), 4);
  EXPECT_TRUE(on_screen("the last lines of rank 1:\n  line 11\n")) << screen();
  EXPECT_TRUE(on_screen("  line 30\ntrainer: rank 1"));
  EXPECT_FALSE(on_screen("the last lines of rank 2"));  // the supervisor killed it
  EXPECT_NE(block().find("exit code 4 without an error message"), std::string::npos);
}

TEST_F(SupervisorTest, MalformedMessagesEndTheRun) {
  EXPECT_EQ(run_with({{"FAKE_0", "hang"}, {"FAKE_1", "babble"}}), 1);
  EXPECT_NE(block().find("rank 1, before the first step: malformed message"), std::string::npos) << screen();
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, ProcessesOfAKilledRankEndWithIt) {
  EXPECT_EQ(run_with({{"FAKE_0", "hang:parent"}, {"FAKE_1", "kill:9"}}), 137);
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, ProcessesThatARankLeavesBehindEndToo) {
  EXPECT_EQ(run_with({{"FAKE", "leave_child"}}), 0) << screen();
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, StopSignalsLetTheRanksSave) {
  for (auto [signal, code, name] : {std::tuple{SIGTERM, 143, "SIGTERM"},
                                    {SIGINT, 130, "SIGINT"},
                                    {SIGHUP, 143, "SIGHUP"},
                                    {SIGUSR1, 143, "SIGUSR1"}}) {
    fs::remove_all(folder_ / "notes");
    fs::create_directories(folder_ / "notes");
    start({{"FAKE", "train"}});
    wait_for_note("ready-0");
    wait_for_note("ready-1");
    kill(pid_, signal);
    EXPECT_EQ(finish(), code);
    // A SIGHUP reaches the ranks as SIGTERM, so they only need to handle two signals.
    EXPECT_EQ(read_file(folder_ / "notes" / "signal-1"), std::to_string(code - 128));
    EXPECT_TRUE(on_screen(fmt::format("trainer: {}: saving, then stopping", name))) << screen();
    EXPECT_TRUE(block().starts_with(fmt::format("trainer: step 7: stopped on {}\n  kept: ", name))) << block();
    EXPECT_NE(block().find("checkpoint-7; the same command"), std::string::npos) << block();
    EXPECT_EQ(outcome()["cause"], code == 130 ? "interrupted" : "stop_requested");
    EXPECT_FALSE(anyone_left());
    fs::remove(folder_ / "stderr");
  }
}

TEST_F(SupervisorTest, RanksSaveWhenTheScreenIsLost) {
  for (const bool full : {false, true}) {
    fs::remove_all(folder_ / "notes");
    fs::create_directories(folder_ / "notes");
    int pipe[2];
    ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
    close(pipe[0]);
    screen_.reset(full ? open("/dev/full", O_WRONLY | O_CLOEXEC) : pipe[1]);
    start({{"FAKE", "train"}});
    wait_for_note("ready-0");
    wait_for_note("ready-1");
    kill(pid_, SIGINT);
    EXPECT_EQ(finish(), 130);
    EXPECT_EQ(outcome()["cause"], "interrupted");
    EXPECT_TRUE(fs::exists(output() / "checkpoint-7"));
    fs::remove_all(output());
  }
}

TEST_F(SupervisorTest, OneRequestToStopMayArriveAsManySignals) {
  using Signals = std::vector<int>;
  for (const Signals& signals : {Signals{SIGTERM, SIGTERM},
                                 {SIGINT, SIGINT, SIGINT},
                                 {SIGHUP, SIGHUP, SIGTERM},
                                 {SIGUSR1, SIGTERM},
                                 {SIGINT, SIGTERM}}) {
    fs::remove_all(folder_ / "notes");
    fs::create_directories(folder_ / "notes");
    start({{"FAKE", "train:300"}});
    wait_for_note("ready-0");
    wait_for_note("ready-1");
    for (const int signal : signals) {
      kill(pid_, signal);
      usleep(20'000);
    }
    EXPECT_EQ(finish(), signals.front() == SIGINT ? 130 : 143) << screen();
    EXPECT_TRUE(fs::exists(output() / "checkpoint-7")) << screen();
    EXPECT_EQ(screen().find("not saving"), std::string::npos) << screen();
    fs::remove_all(output());
  }
}

TEST_F(SupervisorTest, ADifferentSignalIsNotARepeatedRequest) {
  patience_.together = milliseconds(0);
  start({{"FAKE", "train:300"}});
  wait_for_note("ready-0");
  wait_for_note("ready-1");
  for (const int signal : {SIGHUP, SIGHUP, SIGINT, SIGUSR1, SIGUSR1, SIGTERM}) {
    kill(pid_, signal);
    usleep(20'000);
  }
  EXPECT_EQ(finish(), 143) << screen();
  EXPECT_TRUE(fs::exists(output() / "checkpoint-7")) << screen();
}

TEST_F(SupervisorTest, RanksMayAgreeToStopByThemselves) {
  start({{"FAKE", "train"}});
  for (const char* rank : {"0", "1"}) {
    wait_for_note(std::string("ready-") + rank);
    kill(std::stoi(read_file(folder_ / "notes" / (std::string("pid-") + rank))), SIGTERM);
  }
  EXPECT_EQ(finish(), 143);
}

TEST_F(SupervisorTest, TheGracePeriodEnds) {
  plan_.config.checkpoint.grace_seconds = 0.1;
  start({{"FAKE_0", "train"}, {"FAKE_1", "hang:stubborn"}});
  wait_for_note("ready-0");
  wait_for_note("ready-1");
  kill(pid_, SIGTERM);
  EXPECT_EQ(finish(), 143);
  EXPECT_NE(block().find("save abandoned: not finished after 0.1 s (checkpoint.grace_seconds)"), std::string::npos)
      << screen();
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, ASecondSignalKillsAtOnce) {
  patience_.together = milliseconds(0);
  start({{"FAKE", "hang:stubborn"}});
  wait_for_note("ready-0");
  wait_for_note("ready-1");
  kill(pid_, SIGINT);
  while (!on_screen("saving, then stopping")) usleep(1000);
  kill(pid_, SIGINT);
  EXPECT_EQ(finish(), 130);
  EXPECT_NE(block().find("second signal: not saving"), std::string::npos) << screen();
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, ARankThatIsNotReadyToSaveJustStops) {
  start({{"FAKE_0", "hang"}, {"FAKE_1", "hang:stubborn"}});
  wait_for_note("ready-0");
  wait_for_note("ready-1");
  kill(pid_, SIGTERM);
  EXPECT_EQ(finish(), 143);
  EXPECT_NE(block().find("not saving: the ranks were not ready yet"), std::string::npos) << screen();
}

TEST_F(SupervisorTest, RanksDieWithTheSupervisor) {
  start({{"FAKE", "hang:stubborn"}});
  wait_for_note("ready-0");
  wait_for_note("ready-1");
  kill(pid_, SIGKILL);
  EXPECT_EQ(finish(), 128 + SIGKILL);
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, AnOutputFolderInUseStopsASecondRun) {
  start({{"FAKE", "train"}});
  wait_for_note("ready-0");
  const pid_t first = std::exchange(pid_, -1);
  EXPECT_EQ(run_with({{"FAKE", "finish"}}), 4);
  EXPECT_TRUE(on_screen("output folder in use: " + output().string())) << screen();
  EXPECT_TRUE(on_screen(fmt::format("process {}", first))) << screen();
  wait_for_note("ready-1");
  kill(first, SIGTERM);
  pid_ = first;
  EXPECT_EQ(finish(), 143);
}

TEST_F(SupervisorTest, ALostRankIsRestarted) {
  plan_.config.max_restarts = 2;
  testing::leave_bare_checkpoint(output(), 4);
  EXPECT_EQ(run_with({{"FAKE", "die_in_lives:2"}}), 0) << screen();
  EXPECT_TRUE(on_screen("trainer: restart 1 of 2, from where the run started\n")) << screen();
  EXPECT_TRUE(on_screen("step 6 (backward): killed by signal 9 (SIGKILL)\ntrainer: restart 2 of 2")) << screen();
  for (const char* note : {"life-0-0", "life-1-0", "life-2-0", "life-2-1"})
    EXPECT_TRUE(fs::exists(folder_ / "notes" / note));
  EXPECT_EQ(outcome()["code"], 0);
  EXPECT_EQ(outcome()["restarts"], 2);
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, RestartsAreLimited) {
  plan_.config.max_restarts = 1;
  testing::leave_bare_checkpoint(output(), 4);
  EXPECT_EQ(run_with({{"FAKE", "die_in_lives:9"}}), kGaveUp);
  EXPECT_NE(
      block().find("step 6 (backward): killed by signal 9 (SIGKILL)\n  gave up: all 1 restarts (max_restarts) are "
                   "spent\n"),
      std::string::npos)
      << block();
  EXPECT_LE(block_lines(), 6u);
  EXPECT_EQ(outcome()["cause"], "gave_up");
  EXPECT_EQ(outcome()["retryable"], false);
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, ARecurringFailureEndsTheRun) {
  plan_.config.max_restarts = 100;
  patience_.pause = milliseconds(1);
  EXPECT_EQ(run_with({{"FAKE_0", "hang:stubborn"}, {"FAKE_1", "kill:9"}}), kGaveUp);
  EXPECT_TRUE(on_screen("restart 2 of 100")) << screen();
  EXPECT_FALSE(on_screen("restart 3 of 100")) << screen();
  EXPECT_NE(block().find("it ended here 3 times in a row"), std::string::npos) << block();
}

TEST_F(SupervisorTest, FailuresThatARestartCannotFixEndTheRun) {
  plan_.config.max_restarts = 3;
  for (const int code : {2, 3, 4, 5}) EXPECT_EQ(run_with({{"FAKE", fmt::format("fail:{}", code)}}), code) << screen();
  EXPECT_FALSE(on_screen("restart")) << screen();
}

TEST_F(SupervisorTest, AStopRequestIsHeardWhileAnAttemptFails) {
  plan_.config.max_restarts = 3;
  patience_.cause = milliseconds(3'000);  // in which a better cause may come
  start({{"FAKE_0", "train"}, {"FAKE_1", "train"}});
  wait_for_note("ready-0");
  wait_for_note("ready-1");
  kill(std::stoi(read_file(folder_ / "notes" / "pid-1")), SIGKILL);
  usleep(500'000);
  kill(pid_, SIGTERM);
  EXPECT_EQ(finish(), 128 + SIGKILL) << screen();
  EXPECT_NE(block().find("killed by signal 9 (SIGKILL)\n  not restarted: stopped on SIGTERM\n"), std::string::npos)
      << screen();
  EXPECT_FALSE(on_screen("restart 1")) << screen();
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, ARunThatFailsWhileItStopsIsNotRestarted) {
  plan_.config.max_restarts = 3;
  start({{"FAKE_0", "train:60000"}, {"FAKE_1", "train:60000"}});  // a long save
  wait_for_note("ready-0");
  wait_for_note("ready-1");
  kill(pid_, SIGTERM);
  wait_for_note("signal-1");
  kill(std::stoi(read_file(folder_ / "notes" / "pid-1")), SIGKILL);
  EXPECT_EQ(finish(), 128 + SIGKILL) << screen();
  EXPECT_NE(block().find("\n  not restarted: stopped on SIGTERM\n"), std::string::npos) << screen();
  EXPECT_FALSE(on_screen("restart 1")) << screen();
}

TEST_F(SupervisorTest, ASignalEndsThePauseBetweenAttempts) {
  plan_.config.max_restarts = 3;
  patience_.pause = milliseconds(60'000);
  start({{"FAKE_0", "hang:stubborn"}, {"FAKE_1", "kill:9"}});
  while (!on_screen("restart 2 of 3")) usleep(1000);  // the first one happened at once
  kill(pid_, SIGTERM);
  EXPECT_EQ(finish(), 143);
  EXPECT_NE(block().find("stopped on SIGTERM, before the ranks were started"), std::string::npos) << screen();
  EXPECT_FALSE(anyone_left());
}

TEST_F(SupervisorTest, AMissingWorkerIsAMachineError) {
  worker_ = (folder_ / "no-such-worker").string();
  EXPECT_EQ(run_with({{"FAKE", "finish"}}), 4);
  EXPECT_TRUE(on_screen("cannot start " + worker_)) << screen();
  EXPECT_FALSE(fs::exists(output()));
}

}  // namespace
}  // namespace trainer::launch
