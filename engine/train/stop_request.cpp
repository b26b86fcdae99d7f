#include "engine/train/stop_request.h"

#include <csignal>

namespace trainer::train {
namespace {

volatile std::sig_atomic_t g_signal = 0;  // all a signal handler may touch

void note(int signal) {
  g_signal = signal;
}

}  // namespace

void note_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

int stop_signal() {
  return g_signal;
}

}  // namespace trainer::train
