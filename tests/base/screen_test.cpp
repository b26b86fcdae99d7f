#include "engine/base/screen.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "engine/base/file_descriptor.h"
#include "engine/base/log.h"

namespace {

std::atomic<int> failing_polls{0};  // how many of the next calls fail

}  // namespace

/// In front of libc's.
extern "C" int poll(pollfd* descriptors, nfds_t count, int timeout) {
  static const auto libc = reinterpret_cast<int (*)(pollfd*, nfds_t, int)>(dlsym(RTLD_NEXT, "poll"));
  if (failing_polls > 0) {
    --failing_polls;
    errno = ENOMEM;
    return -1;
  }
  return libc(descriptors, count, timeout);
}

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct Pipe {
  FileDescriptor reader, writer;

  explicit Pipe(int flags = 0) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | flags), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
};

/// Reads to the end, after a pause.
std::string read_late(int fd) {
  std::this_thread::sleep_for(100ms);
  fcntl(fd, F_SETFL, 0);
  std::string text;
  char bytes[4096];
  for (ssize_t count; (count = read(fd, bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(count));
  return text;
}

TEST(Screen, ANonBlockingPipeReceivesEverything) {
  Pipe pipe(O_NONBLOCK);
  const std::string text(1'000'000, 'x');
  std::string got;
  std::thread reader([&] { got = read_late(pipe.reader.get()); });
  screen::write(pipe.writer.get(), text);
  pipe.writer.reset();
  reader.join();
  EXPECT_EQ(got, text);
}

TEST(Screen, ALineIsNotLostIfTheKernelIsOutOfMemory) {
  Pipe pipe;
  failing_polls = 3;
  screen::write(pipe.writer.get(), "resuming");
  EXPECT_EQ(failing_polls, 0);
  pipe.writer.reset();
  EXPECT_EQ(read_late(pipe.reader.get()), "resuming");
}

TEST(Screen, AFullDeviceAndAClosedDescriptorAreIgnored) {
  const FileDescriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  screen::write(full.get(), "lost");
  screen::write(-1, "lost");
}

/// Runs `act` in a child whose standard error is a pipe without a reader; returns its wait status.
template <class F>
int status_without_reader(const F& act) {
  const pid_t child = fork();
  if (child == 0) {
    Pipe pipe;
    pipe.reader.reset();
    dup2(pipe.writer.get(), STDERR_FILENO);
    act();
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(Screen, AClosedReaderReplacesNoExitCode) {
  const auto report = [] {
    screen::error("lost");
    log::warning("lost");
  };
  const int outlived = status_without_reader([&] {
    screen::outlive();
    report();
  });
  EXPECT_TRUE(WIFEXITED(outlived) && WEXITSTATUS(outlived) == 7) << outlived;
  const int reported = status_without_reader(report);
  EXPECT_TRUE(WIFEXITED(reported) && WEXITSTATUS(reported) == 7) << reported;
  const int printed = status_without_reader([] { std::fputs("lost", stderr); });
  EXPECT_TRUE(WIFSIGNALED(printed) && WTERMSIG(printed) == SIGPIPE) << printed;
}

/// A pipe and a terminal without a reader.
TEST(Screen, AScreenThatAcceptsNothingBlocksOnlyOnce) {
  Pipe pipe;
  int ours = -1, terminal = -1;
  ASSERT_EQ(openpty(&ours, &terminal, nullptr, nullptr, nullptr), 0);
  const FileDescriptor close_ours(ours), close_terminal(terminal);
  const std::string text(1'000'000, 'x');
  const auto begin = Clock::now();
  screen::write(pipe.writer.get(), text);
  const auto waited = Clock::now() - begin;
  EXPECT_GE(waited, 5s);
  screen::write(terminal, text);  // no second wait, for this screen or another
  screen::write(pipe.writer.get(), text);
  EXPECT_LT(Clock::now() - begin - waited, 4s);
  pipe.writer.reset();
  EXPECT_GT(read_late(pipe.reader.get()).size(), 4096U);
}

TEST(Log, AFullDiskIsReportedOnceInOurWords) {
  Pipe pipe;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(pipe.writer.get(), STDERR_FILENO);
    log::open(log::Level::kError, "", "/dev/full");
    for (int i = 0; i < 3; ++i) {
      log::info("to the file only");
      std::this_thread::sleep_for(400ms);  // longer than a second in all: spdlog reports once a second
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  pipe.writer.reset();
  const std::string text = read_late(pipe.reader.get());
  EXPECT_EQ(text.find("LOG ERROR"), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with("warning: the log cannot be written; the run continues without it: ")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

}  // namespace
}  // namespace trainer
