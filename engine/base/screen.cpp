#include "engine/base/screen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>

#include "engine/base/errors.h"

namespace trainer::screen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kBetweenTries{10};
// This much fits once poll() reports room: a pipe then has a free page, a pseudo-terminal a free buffer of 256 bytes.
constexpr size_t kPieceOfPipe = PIPE_BUF, kPieceOfTerminal = 256;

int why_lost = 0;  // errno of the failed write to standard output

bool waits_for_room(int fd, Clock::time_point end) {
  pollfd event{fd, POLLOUT, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    const int ready = poll(&event, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready >= 0) return ready > 0;  // errors of the descriptor count as ready: the write reports them
    if (errno == EINTR) continue;
    if (left <= 0) return false;
    std::this_thread::sleep_for(kBetweenTries);  // the kernel was out of memory
  }
}

/// During its lifetime, a write to a pipe that nobody reads fails in this thread instead of ending the process: a lost
/// message must not replace the exit code.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalHeld() {
    const int error = errno;
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  static sigset_t only_pipe() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    return signals;
  }

  const sigset_t pipe_ = only_pipe();
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace

void write(int fd, std::string_view text) noexcept {
  if (fd < 0) return;  // poll() would wait for it
  const PipeSignalHeld held;
  static std::atomic<bool> stands{false};  // the screen accepted nothing for kPatience
  const size_t piece = isatty(fd) == 1 ? kPieceOfTerminal : kPieceOfPipe;
  const Clock::time_point end = stands ? Clock::now() : Clock::now() + kPatience;
  while (!text.empty()) {
    if (!waits_for_room(fd, end)) {
      stands = true;
      return;
    }
    const ssize_t count = ::write(fd, text.data(), std::min(text.size(), piece));
    if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
      stands = false;
    } else if (count < 0 && errno == EAGAIN && Clock::now() < end) {
      std::this_thread::sleep_for(kBetweenTries);
    } else if (count == 0 || errno != EINTR) {
      return;
    }
  }
}

void outlive() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTTOU, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void open_missing() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() returns the lowest free number. The wrong direction makes reads and writes fail as on a closed descriptor.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool is_lost_output(const std::exception& failure) {
  if (std::ferror(stdout) == 0) return false;
  if (const auto* const error = dynamic_cast<const std::system_error*>(&failure)) why_lost = error->code().value();
  return true;
}

int finish_output(int code) {
  errno = 0;
  if (std::fflush(stdout) != 0) why_lost = errno;
  if (std::ferror(stdout) == 0 || code != kDone) return code;
  const int why = why_lost;
  if (why == EPIPE) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
  error("cannot write to standard output{}{}\n", why != 0 ? ": " : "", why != 0 ? std::strerror(why) : "");
  return kMachineFailure;
}

}  // namespace trainer::screen
