#include "engine/launch/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void set_action(int signal, void (*handler)(int), struct sigaction* before) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, before);
}

}  // namespace

SignalQueue::SignalQueue() {
  sigset_t queued;
  sigemptyset(&queued);
  sigaddset(&queued, SIGCHLD);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT}) {
    if (!is_ignored(signal)) sigaddset(&queued, signal);
  }
  queue_.reset(signalfd(-1, &queued, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!queue_) throw MachineError("cannot watch for signals: {}", std::strerror(errno));
  sigprocmask(SIG_BLOCK, &queued, &mask_before_);
  set_action(SIGCHLD, SIG_DFL, &child_before_);  // an inherited "ignore" would discard exit statuses
  set_action(SIGPIPE, SIG_IGN, &pipe_before_);
}

SignalQueue::~SignalQueue() {
  server_ = nullptr;
  take();  // unblocking must not deliver signals that were handled
  sigaction(SIGCHLD, &child_before_, nullptr);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

void SignalQueue::add_events(std::vector<pollfd>& events) const {
  events.push_back({queue_.get(), POLLIN, 0});
  if (server_ != nullptr) events.push_back({server_->fd(), POLLIN, 0});
}

std::vector<int> SignalQueue::take() {
  if (server_ != nullptr) server_->serve();
  std::vector<int> signals;
  signalfd_siginfo info;
  while (read(queue_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

}  // namespace trainer::launch
