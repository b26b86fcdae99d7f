#include "engine/cli/raw_mode.h"

#include <signal.h>
#include <unistd.h>

#include <iterator>

namespace trainer::cli {
namespace {

constexpr int kDeadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPIPE};
constexpr int kDisturbing[] = {SIGTSTP, SIGWINCH};

// For the signal handlers, which can reach nothing else.
termios usual, raw;
volatile sig_atomic_t disturbed = 0;
sigset_t usual_mask;
struct sigaction before_deadly[std::size(kDeadly)], before_disturbing[std::size(kDisturbing)];

void set_terminal(const termios& settings) {
  tcsetattr(STDIN_FILENO, TCSADRAIN, &settings);  // keeps what was typed ahead
}

void restore_and_die(int signal) {
  set_terminal(usual);
  ::signal(signal, SIG_DFL);
  raise(signal);  // delivered when this handler returns
}

void disturb(int signal);

void install(int signal, void (*handler)(int), struct sigaction* before) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART, so that the signal interrupts a read
  sigaction(signal, nullptr, before);
  if (before->sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
}

/// Restores the terminal, stops the program as Ctrl-Z does, and continues here later.
void stop() {
  set_terminal(usual);
  struct sigaction usual_stop {
  }, ours;
  usual_stop.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &usual_stop, &ours);
  sigset_t only_stop, masked;
  sigemptyset(&only_stop);
  sigaddset(&only_stop, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &only_stop, &masked);  // stopped in here
  sigprocmask(SIG_SETMASK, &masked, nullptr);
  sigaction(SIGTSTP, &ours, nullptr);
  set_terminal(raw);
}

void disturb(int signal) {
  if (signal == SIGTSTP) stop();
  disturbed = 1;
}

}  // namespace

RawMode::RawMode() {
  tcgetattr(STDIN_FILENO, &usual);
  raw = usual;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  for (std::size_t i = 0; i < std::size(kDeadly); ++i) install(kDeadly[i], restore_and_die, &before_deadly[i]);
  for (std::size_t i = 0; i < std::size(kDisturbing); ++i) install(kDisturbing[i], disturb, &before_disturbing[i]);
  disturbed = 0;
  sigset_t disturbing;
  sigemptyset(&disturbing);
  for (const int signal : kDisturbing) sigaddset(&disturbing, signal);
  sigprocmask(SIG_BLOCK, &disturbing, &usual_mask);
  set_terminal(raw);
}

RawMode::~RawMode() {
  set_terminal(usual);
  sigprocmask(SIG_SETMASK, &usual_mask, nullptr);
  for (std::size_t i = 0; i < std::size(kDeadly); ++i) sigaction(kDeadly[i], &before_deadly[i], nullptr);
  for (std::size_t i = 0; i < std::size(kDisturbing); ++i) sigaction(kDisturbing[i], &before_disturbing[i], nullptr);
}

const sigset_t* RawMode::mask_while_waiting() {
  return &usual_mask;
}

bool RawMode::take_disturbance() {
  const bool was = disturbed != 0;
  disturbed = 0;
  return was;
}

}  // namespace trainer::cli
