#include "engine/worker/chat_input.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "engine/base/files.h"

namespace trainer::worker {
namespace {

// A signal can run on any thread and at any time, also between a check and a wait. The pipe makes it part of the wait.
int signaled[2] = {-1, -1};

void on_interrupt(int) {
  const int kept = errno;
  [[maybe_unused]] const ssize_t written = write(signaled[1], "", 1);
  errno = kept;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace

ChatInput::ChatInput() {
  if (pipe2(signaled, O_NONBLOCK | O_CLOEXEC) != 0) throw machine_error("create", "a pipe", errno);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

ChatInput::~ChatInput() {
  std::signal(SIGINT, SIG_DFL);
  for (const int fd : signaled) close(fd);
}

bool ChatInput::interrupted() const {
  return is_readable(signaled[0]);
}

void ChatInput::forget_interrupt() {
  char byte = 0;
  while (read(signaled[0], &byte, 1) > 0) continue;
}

bool ChatInput::read_more() {
  pollfd inputs[] = {{STDIN_FILENO, POLLIN, 0}, {signaled[0], POLLIN, 0}};
  while (poll(inputs, 2, -1) < 0 && errno == EINTR) continue;
  if (inputs[1].revents != 0) return false;
  char bytes[4096];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

bool ChatInput::next(std::string& line) {
  while (buffer_.find('\n') == std::string::npos)
    if (!read_more()) {
      if (buffer_.empty() || interrupted()) return false;
      buffer_ += '\n';  // the last line of a pipe can lack it
    }
  const size_t end = buffer_.find('\n');
  line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return true;
}

}  // namespace trainer::worker
