// The program `trainer` from outside: its output, its exit codes, a terminal.
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/config/plan.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string out, err;
};

std::string read_all(const fs::path& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class Program : public testing::Test {
 protected:
  /// Beside the program, so that it can be linked into the folder.
  Program()
      : folder_(fs::path(TRAINER).parent_path() /
                fmt::format("cli-{}-{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
    fs::create_hard_link(TRAINER, folder_ / "trainer");
    setenv("HOME", folder_.c_str(), 1);
    for (const char* name :
         {"TRAINER_CONFIG", "HF_HOME", "XDG_CACHE_HOME", "ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_CPU"}) {
      unsetenv(name);
    }
  }
  ~Program() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  void write_worker(const std::string& script) {
    fs::permissions(write("trainer-worker", "#!/bin/sh\n" + script), fs::perms::owner_all);
  }

  Outcome run(const std::string& arguments, const std::string& input = "") {
    const std::string command = fmt::format("cd {0} && ./trainer {1} < {2} > out.txt 2> err.txt", folder_.string(),
                                            arguments, write("in.txt", input));
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read_all(folder_ / "out.txt"), read_all(folder_ / "err.txt")};
  }

  fs::path folder_;
};

const std::string kJob =
    "distributed_type: MULTI_CPU\nnum_processes: 2\nmodel: {path: m}\ndata: {train: {path: a.txt}}\n";

TEST_F(Program, HelpAndVersion) {
  EXPECT_EQ(run("--version").out.substr(0, 8), "trainer ");
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"config", "check", "launch", "explain", "tokenize"})
    EXPECT_NE(help.out.find(name), std::string::npos);
  const Outcome launch = run("launch --help");
  EXPECT_EQ(launch.code, 0);
  for (const char* flag :
       {"--num_processes", "--fsdp_sharding_strategy", "--fsdp_transformer_layer_cls_to_wrap", "--set", "--cpu",
        "--machine_rank", "--num_cpu_threads_per_process", "--mixed_precision", "--debug"}) {
    EXPECT_NE(launch.out.find(flag), std::string::npos) << flag;
  }
  EXPECT_EQ(run("").code, 2);
}

TEST_F(Program, UnknownNames) {
  const Outcome command = run("lanch");
  EXPECT_EQ(command.code, 2);
  EXPECT_EQ(command.err, "there is no command 'lanch' (did you mean 'launch'?); `trainer --help` lists them\n");
  const Outcome flag = run("explain --num_procesess=3");
  EXPECT_EQ(flag.code, 2);
  EXPECT_EQ(flag.err, "'--num_procesess' is not a flag of `trainer explain` (did you mean '--num_processes'?)\n");
  const Outcome missing = run("explain --num_processes");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("--num_processes"), std::string::npos);
}

TEST_F(Program, ProblemsAreTheWholeMessage) {
  write("f.yaml", kJob + "sed: 1\ntraining: {learning_rate: x}\n");
  const Outcome outcome = run("launch --config_file f.yaml");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "f.yaml:5:1: sed is not an option (did you mean 'seed'?)\n"
            "f.yaml:6:27: training.learning_rate must be a number; is 'x'\n");
  EXPECT_EQ(run("launch --config_file none.yaml").code, 2);
}

TEST_F(Program, FlagsAreSpelledEitherWay) {
  write("f.yaml", kJob);
  const Outcome outcome =
      run("explain --config-file=f.yaml --num-processes 3 --use-fsdp --cpu --fsdp-min-num-params 5 --debug "
          "--fsdp_transformer_layer_cls_to_wrap A,B --set training.learning_rate=1e-3 --set 'data.source={x}'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line :
       {"num_processes: 3  # --num_processes\n", "distributed_type: FSDP  # --use_fsdp\n", "use_cpu: true  # --cpu\n",
        "  fsdp_min_num_params: 5  # --fsdp_min_num_params\n", "debug: true  # --debug\n",
        "  fsdp_transformer_layer_cls_to_wrap: A,B  # --fsdp_transformer_layer_cls_to_wrap\n",
        "  learning_rate: 0.001  # --set\n", "seed: 42  # default\n"}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "in\n" << outcome.out;
  }
  EXPECT_EQ(outcome.err.find("warning: --fsdp_min_num_params: fsdp_config.fsdp_min_num_params has no effect unless"),
            0u)
      << outcome.err;
}

TEST_F(Program, WhichFileIsUsed) {
  EXPECT_EQ(run("explain").code, 2);
  EXPECT_NE(run("explain").err.find("trainer config"), std::string::npos);
  const std::string accelerate =
      write(".cache/huggingface/accelerate/default_config.yaml", "distributed_type: MULTI_CPU\nnum_processes: 7\n");
  write("job.yaml", "model: {path: m}\ndata: {train: {path: a}}\n");
  Outcome outcome = run("explain job.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "using Accelerate's file " + accelerate + "\n");
  EXPECT_NE(outcome.out.find("num_processes: 7"), std::string::npos);
  const std::string own =
      write(".config/trainer/default_config.yaml", "distributed_type: MULTI_CPU\nnum_processes: 5\n");
  EXPECT_EQ(run("explain job.yaml").err, "using " + own + "\n");
  setenv("TRAINER_CONFIG", accelerate.c_str(), 1);
  EXPECT_EQ(run("explain job.yaml").err, "using " + accelerate + " ($TRAINER_CONFIG)\n");
  write("whole.yaml", kJob);
  outcome = run("explain whole.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("num_processes: 2"), std::string::npos);
}

TEST_F(Program, TheWorkerGetsPlanAndArguments) {
  write("f.yaml", kJob);
  EXPECT_EQ(run("check --config_file f.yaml").code, 4);  // no worker beside it
  write_worker("echo \"$@\"; cat /proc/self/fd/$TRAINER_PLAN_FD; exit 3\n");
  const Outcome outcome = run("check --config_file f.yaml --num_processes 3");
  EXPECT_EQ(outcome.code, 3);
  ASSERT_EQ(outcome.out.substr(0, 6), "check\n");
  EXPECT_EQ(config::parse_plan(outcome.out.substr(6)).world_size(), 3);
  write_worker("echo \"$@\"\n");
  EXPECT_EQ(run("tokenize train --input a.txt --vocab-size 5").out, "tokenize train --input a.txt --vocab-size 5\n");
}

TEST_F(Program, LaunchStartsTheRanks) {
  write("f.yaml", kJob);
  write_worker("echo \"rank $RANK of $WORLD_SIZE\" >> " + (folder_ / "seen").string() + "\nexit 5\n");
  const Outcome outcome = run("launch --config_file f.yaml");
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_NE(read_all(folder_ / "seen").find("of 2"), std::string::npos);
}

TEST_F(Program, WizardFromLines) {
  const std::string input =
      "3\n2\n1\n1\nT5Block\n\nruns\n1\nm\na.txt\n2\n@\nsentence, label\n0.2\nsentence\nlabel\nmaybe\nyes\n";
  const Outcome outcome = run("config --config_file sub/new.yaml", input);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("please answer yes or no"), std::string::npos);
  EXPECT_NE(
      outcome.out.find("configuration saved at sub/new.yaml\nrun it with: trainer launch --config_file sub/new.yaml\n"),
      std::string::npos)
      << outcome.out;
  const Outcome explained = run("explain --config_file sub/new.yaml");
  EXPECT_EQ(explained.code, 0) << explained.err;
  for (const char* line :
       {"distributed_type: FSDP", "num_processes: 2", "    format: delimited", "    fraction: 0.2", "  r: 8"}) {
    EXPECT_NE(explained.out.find(line), std::string::npos) << line;
  }
}

TEST_F(Program, WizardWithoutQuestions) {
  Outcome outcome = run("config --yes");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / ".config/trainer/default_config.yaml"));
  EXPECT_NE(outcome.out.find("It is not complete yet:"), std::string::npos);
  EXPECT_NE(outcome.out.find("data.train.path is required"), std::string::npos);
  write("answers.yaml", kJob);
  outcome = run("config --config_file b.yaml --answers answers.yaml");
  EXPECT_EQ(outcome.out.find("It is not complete yet:"), std::string::npos);
  EXPECT_EQ(run("explain --config_file b.yaml").code, 0);
  write("broken.yaml", "sed: 1\n");
  outcome = run("config --config_file broken.yaml --yes");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(read_all(folder_ / "broken.yaml"), "sed: 1\n");
}

/// The wizard on a terminal of its own.
class Terminal : public Program {
 protected:
  void start() {
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      if (chdir(folder_.c_str()) != 0) _exit(9);
      execl("./trainer", "trainer", "config", "--config_file", "t.yaml", nullptr);
      _exit(9);
    }
  }

  /// Everything shown until `text` is; fails after a time that no machine needs.
  std::string wait_for(const std::string& text) {
    for (int i = 0; i < 600 && shown_.find(text) == std::string::npos; ++i) {
      fd_set ready;
      FD_ZERO(&ready);
      FD_SET(terminal_, &ready);
      timeval patience{0, 100'000};
      char buffer[4096];
      if (select(terminal_ + 1, &ready, nullptr, nullptr, &patience) <= 0) continue;
      const ssize_t count = read(terminal_, buffer, sizeof buffer);
      if (count <= 0) break;
      shown_.append(buffer, static_cast<std::size_t>(count));
    }
    EXPECT_NE(shown_.find(text), std::string::npos) << shown_;
    return std::exchange(shown_, "");
  }

  void type(const std::string& keys) {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  bool echoes() const {
    termios settings{};
    tcgetattr(terminal_, &settings);
    return settings.c_lflag & ECHO;
  }

  void wait_for_echo(bool wanted) {
    for (int i = 0; i < 600 && echoes() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(echoes(), wanted);
  }

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

TEST_F(Terminal, ArrowsAndNumbersChoose) {
  start();
  wait_for("    FSDP\r\n");
  wait_for_echo(false);
  type("\033[B\033[B\033[B\033[A\n");  // down, down, down (around to the top), up (to the last)
  wait_for("processes should be used");
  wait_for_echo(true);
  type("2\n");
  wait_for("sharding strategy");
  wait_for_echo(false);
  type("\n");
  wait_for("    NO_WRAP\r\n");
  wait_for_echo(false);
  type("2\n");
  wait_for("mixed precision");
  wait_for_echo(false);
  type("\x04");
  wait_for("run it with");
  int status = 0;
  waitpid(pid_, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const std::string text = read_all(folder_ / "t.yaml");
  EXPECT_NE(text.find("distributed_type: FSDP\n"), std::string::npos) << text;
  EXPECT_NE(text.find("num_processes: 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("fsdp_auto_wrap_policy: NO_WRAP\n"), std::string::npos) << text;
}

TEST_F(Terminal, IsRestoredWhenKilled) {
  for (const int signal : {SIGTERM, SIGINT}) {
    start();
    wait_for("    FSDP\r\n");
    wait_for_echo(false);
    // The other side of the terminal stays open here, so that its settings can be looked at afterwards.
    const int other = open(ptsname(terminal_), O_RDWR | O_NOCTTY);
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_TRUE(echoes());
    EXPECT_FALSE(fs::exists(folder_ / "t.yaml"));
    close(other);
    close(terminal_);
    shown_.clear();
  }
}

}  // namespace
}  // namespace trainer
