#include "engine/base/signal_thread.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trainer {
namespace {

constexpr int kTrue = 101, kFalse = 102, kRounds = 1000;
std::atomic<int> received = 0, received_here = 0;
thread_local bool computes = false;

/// Whether `check` holds in a process of its own.
bool holds(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(check() ? kTrue : kFalse);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == kTrue;
}

void note(int) {
  received_here += computes ? 1 : 0;
  ++received;
}

void send(int signal) {
  const int before = received;
  kill(getpid(), signal);
  while (received == before) std::this_thread::yield();
}

TEST(SignalThread, ReceivesInsteadOfThreadsThatCompute) {
  EXPECT_TRUE(holds([] {
    computes = true;
    receive_signals_on_own_thread();
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGURG, SIGHUP}) ::signal(signal, note);
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        computes = true;
        while (!stop) continue;
      });
    for (int i = 0; i < kRounds; ++i)
      for (const int signal : {SIGTERM, SIGUSR1}) send(signal);
    stop = true;
    for (std::thread& thread : threads) thread.join();
    return received == 2 * kRounds && received_here == 0;
  }));
}

TEST(SignalThread, DefaultActionsStay) {
  const pid_t child = fork();
  if (child == 0) {
    receive_signals_on_own_thread();
    kill(getpid(), SIGTERM);
    sleep(60);
    _exit(kFalse);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(SignalThread, FaultsReachTheirThread) {
  EXPECT_TRUE(holds([] {
    computes = true;
    receive_signals_on_own_thread();
    signal(SIGFPE, note);
    raise(SIGFPE);
    return received_here == 1;
  }));
}

}  // namespace
}  // namespace trainer
