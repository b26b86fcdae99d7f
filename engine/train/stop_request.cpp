#include "engine/train/stop_request.h"

#include <csignal>

namespace trainer::train {
namespace {

volatile std::sig_atomic_t g_signal = 0, g_save = 0, g_way = 0;  // all a signal handler may touch

void note(int signal) {
  if (signal == SIGUSR2)
    g_save = 1;
  else if (signal == SIGURG)
    g_way = 1;
  else
    g_signal = signal == SIGINT ? SIGINT : SIGTERM;
}

bool take(volatile std::sig_atomic_t& note) {
  if (note == 0) return false;
  note = 0;  // only if it was set: a request that arrives in between counts for the next update
  return true;
}

}  // namespace

void note_signals() {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGURG}) sigaction(signal, &action, nullptr);
}

int stop_signal() {
  return g_signal;
}

bool take_save_request() {
  return take(g_save);
}

bool take_yield_request() {
  return take(g_way);
}

}  // namespace trainer::train
