#include "engine/train/stop_request.h"

#include <atomic>
#include <csignal>

namespace trainer::train {
namespace {

// Handlers run on a thread of their own (engine/base/signal_thread.h), or in the middle of the one that reads these.
std::atomic<int> g_signal = 0;
std::atomic<bool> g_save = false, g_way = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void note(int signal) {
  if (signal == SIGUSR2)
    g_save = true;
  else if (signal == SIGURG)
    g_way = true;
  else
    g_signal = signal == SIGINT ? SIGINT : SIGTERM;
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
  return g_save.exchange(false);
}

bool take_yield_request() {
  return g_way.exchange(false);
}

}  // namespace trainer::train
