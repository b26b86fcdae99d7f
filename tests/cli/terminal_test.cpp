// The wizard on a terminal.
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>

#include <sstream>
#include <thread>

#include "engine/cli/menu.h"
#include "engine/cli/terminal.h"
#include "tests/cli/program.h"

namespace trainer {
namespace {

bool echoes(int terminal) {
  termios settings{};
  tcgetattr(terminal, &settings);
  return settings.c_lflag & ECHO;
}

/// Acts as a shell for a foreground program: when it is stopped, prints whether the terminal echoes and continues it.
/// Returns its exit code.
int run_as_job(pid_t job) {
  signal(SIGTTOU, SIG_IGN);
  tcsetpgrp(STDIN_FILENO, job);
  int status = 0;
  while (waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status)) {
    tcsetpgrp(STDIN_FILENO, getpgrp());
    dprintf(STDOUT_FILENO, "stopped, echo %s\n", echoes(STDIN_FILENO) ? "on" : "off");
    tcsetpgrp(STDIN_FILENO, job);
    kill(job, SIGCONT);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Terminal : public Program {
 protected:
  void start(winsize size = {24, 80, 0, 0}) {
    setenv("TERM", "xterm", 1);
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    const pid_t job = fork();
    if (job != 0) {
      setpgid(job, job);
      _exit(run_as_job(job));
    }
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(STDIN_FILENO, getpid());
    signal(SIGTTOU, SIG_DFL);
    if (chdir(folder_.c_str()) != 0) _exit(9);
    execl("./trainer", "trainer", "config", "--config_file", "t.yaml", nullptr);
    _exit(9);
  }

  /// Everything shown until `text` appears; fails after a generous timeout.
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
    const std::size_t end = shown_.find(text);
    EXPECT_NE(end, std::string::npos) << text << " in\n" << shown_;
    const std::string before = shown_.substr(0, end);
    shown_.erase(0, end == std::string::npos ? end : end + text.size());
    return before;
  }

  void type(const std::string& keys) {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  void wait_for_echo(bool wanted) {
    for (int i = 0; i < 600 && echoes(terminal_) != wanted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(echoes(terminal_), wanted);
  }

  int wait_for_end() {
    int status = 0;
    waitpid(pid_, &status, 0);
    close(terminal_);
    shown_.clear();
    return WEXITSTATUS(status);
  }

  std::string written() { return read_all(folder_ / "t.yaml"); }

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

const char* const kUp = "\033[A";
const char* const kDown = "\033[B";
const char* const kLeft = "\033[D";

TEST_F(Terminal, QuestionMarkShowsHelpAndAsksAgain) {
  start();
  wait_for("multi-GPU\r\n");
  wait_for_echo(false);
  type("?");
  wait_for("multi-GPU: one process for each GPU");
  wait_for("Which type of machine");
  wait_for("multi-GPU\r\n");
  wait_for_echo(false);
  type("\n");
  wait_for("[YES/no]: ");
  wait_for_echo(true);
  type("?\n");
  wait_for("In the file: use_cpu");
  wait_for("[YES/no]: ");
  type("\x04");
  wait_for("run it with");
  EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(Terminal, KeysMoveAndChoose) {
  start();
  wait_for("multi-GPU\r\n");
  wait_for_echo(false);
  type(std::string(kDown) + kDown + kDown + kUp + "k\n");  // around to the top, to the last, to the one in the middle
  wait_for("\r\033[Jmulti-CPU\r\n");
  wait_for("training)? [1]: ");
  wait_for_echo(true);
  type("\n");
  wait_for("[yes/NO]: ");
  type("\n");
  wait_for("FullyShardedDataParallel? [yes/NO]: ");
  type("yes\n");
  wait_for("FSDP version?");
  wait_for("➔\033[0m  2\r\n");
  wait_for_echo(false);
  type("\033[Hj1\n");  // Home, down to 2, and the choice named 1
  wait_for("sharding strategy?");
  wait_for_echo(false);
  type("\n");
  wait_for("offload parameters");
  wait_for_echo(true);
  type("\x04");
  wait_for("run it with");
  EXPECT_EQ(wait_for_end(), 0);
  for (const char* const line : {"distributed_type: FSDP\n", "use_cpu: true\n", "  fsdp_version: 1\n"})
    EXPECT_NE(written().find(line), std::string::npos) << line << "in\n" << written();
}

TEST_F(Terminal, LeftGoesBack) {
  start();
  wait_for("multi-GPU\r\n");
  wait_for_echo(false);
  type("2\n");
  wait_for("training)? [1]: ");
  wait_for_echo(true);
  type("<\n");
  wait_for("➔\033[0m  2  multi-CPU\r\n");
  wait_for_echo(false);
  type(kLeft);
  wait_for("This is the first question");
  wait_for("multi-GPU\r\n");
  wait_for_echo(false);
  type("1\n");
  wait_for("on CPU only");
  wait_for_echo(true);
  type("yes\n");
  wait_for("DeepSpeed? [yes/NO]: ");
  type(std::string(kLeft) + "\n");
  wait_for("on CPU only");
  wait_for("[YES/no]: ");
  type("\x04");
  wait_for("run it with");
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_NE(written().find("distributed_type: 'NO'\n"), std::string::npos) << written();
}

TEST_F(Terminal, IsRestoredWhenTheProgramDies) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV}) {
    start();
    wait_for("multi-GPU\r\n");
    wait_for_echo(false);
    // Keep the other side of the terminal open, so that its settings can be read afterwards.
    const int other = open(ptsname(terminal_), O_RDWR | O_NOCTTY);
    if (signal == SIGINT) {
      type("\x03");
    } else if (signal == SIGQUIT) {
      type("\x1c");
    } else {
      kill(tcgetpgrp(terminal_), signal);
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_TRUE(echoes(terminal_)) << signal;
    EXPECT_FALSE(fs::exists(folder_ / "t.yaml"));
    close(other);
    close(terminal_);
    shown_.clear();
  }
}

TEST_F(Terminal, ContinuesAfterAStop) {
  start();
  wait_for("multi-GPU\r\n");
  wait_for_echo(false);
  type("2");
  wait_for("➔\033[0m  2  multi-CPU\r\n");
  type("\x1a");
  wait_for("stopped, echo on\r\n");
  wait_for("Which type of machine are you using?\r\n");
  wait_for("➔\033[0m  2  multi-CPU\r\n");
  wait_for_echo(false);
  type("\n");
  wait_for("training)? [1]: ");
  wait_for_echo(true);
  type("\x04");
  wait_for("run it with");
  EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(Terminal, HonorsNoColor) {
  setenv("NO_COLOR", "1", 1);
  start();
  wait_for(" ➔  1  No distributed training\r\n");
  unsetenv("NO_COLOR");
  wait_for("multi-GPU\r\n");
  wait_for_echo(false);
  type("\x04");
  wait_for("run it with");
  EXPECT_EQ(wait_for_end(), 0);
}

TEST(Menu, FitsIntoSmallWindows) {
  std::vector<std::string> choices;
  for (int i = 1; i <= 12; ++i) choices.push_back(fmt::format("choice ünumber {}", i));
  std::ostringstream out;
  cli::Menu menu(choices, "choice ünumber 9", false);
  menu.draw(out, 16, 9);
  EXPECT_EQ(out.str(), "    7  choice ü\n    8  choice ü\n ➔  9  choice ü\n    10  choice \n    9 of 12\n");
  out.str("");
  menu.last();
  menu.draw(out, 80, 3);
  EXPECT_EQ(out.str(), "\033[5A\r\033[J ➔  12  choice ünumber 12\n    12 of 12\n");
  menu.pick(3);
  EXPECT_EQ(menu.chosen(), "choice ünumber 3");
}

TEST(Menu, DigitsPickChoicesOfThatNameFirst) {
  const std::vector<std::string> stages{"0", "1", "2", "3"};
  cli::Menu menu(stages, "2", false);
  menu.pick(3);
  EXPECT_EQ(menu.chosen(), "3");
  menu.pick(7);
  EXPECT_EQ(menu.chosen(), "3");
  EXPECT_EQ(cli::choice_of("1", stages), "1");
  EXPECT_EQ(cli::choice_of("1", {"FULL", "HALF"}), "FULL");
  EXPECT_EQ(cli::choice_of("half", {"FULL", "HALF"}), "HALF");
  EXPECT_EQ(cli::choice_of("3", {"FULL", "HALF"}), "3");
}

}  // namespace
}  // namespace trainer
