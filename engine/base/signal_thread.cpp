#include "engine/base/signal_thread.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

namespace trainer {

void receive_signals_on_own_thread() {
  sigset_t received;
  sigfillset(&received);
  // These are sent to the thread that causes them, where it causes them.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE, SIGXFSZ})
    sigdelset(&received, fault);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &received, &before);  // first: the new thread must be the only one that receives them
  std::thread([before] {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    while (true) pause();
  }).detach();
}

}  // namespace trainer
