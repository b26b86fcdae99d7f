#include "engine/launch/failure.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

const char* meaning_of(int signal) {
  switch (signal) {
    case SIGKILL:
      return "often the out-of-memory killer: see `dmesg`; a smaller per_device_train_batch_size needs less memory";
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGUSR1:
    case SIGUSR2:
      return "only this rank was signaled: send the signal to the launcher to save and stop";
    case SIGBUS:
      return "a file it had mapped was truncated or its disk failed, or this is a bug in trainer";
    case SIGILL:
      return "this processor lacks an instruction that the program uses, or this is a bug in trainer";
    case SIGXCPU:
    case SIGXFSZ:
      return "a limit of this account was reached: see `ulimit -a`";
    default:
      return "a crash: please report it with the rank's log";
  }
}

/// Not shared memory, which has a path too.
bool is_a_users(const std::string& file) {
  return file.starts_with('/') && !file.starts_with("/memfd:") && !file.starts_with("/dev/");
}

/// The exit code of the run when a rank exits with `status` without a report.
int code_of_silent_exit(int status) {
  constexpr int kLoaderFailed = 127;
  if (status == kLoaderFailed) return kMachineFailure;
  return status >= kInternalFailure && status <= kGaveUp ? status : kInternalFailure;
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

Failure failure_of_status(int status, bool done, const std::string& unreadable_file) {
  Failure failure;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS && is_a_users(unreadable_file)) {
    failure.code = kInputFailure;
    failure.message = fmt::format(
        "cannot read {}: it was truncated while it was in use, or its disk failed (see `dmesg`)\n  wait for the other "
        "program, then run again",
        unreadable_file);
  } else if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    failure.code = 128 + signal;
    failure.message = fmt::format("killed by signal {} ({})\n  {}", signal, signal_name(signal), meaning_of(signal));
  } else if (WEXITSTATUS(status) != 0) {
    failure.code = code_of_silent_exit(WEXITSTATUS(status));
    failure.message = fmt::format("ended with exit code {} without an error message", WEXITSTATUS(status));
  } else if (!done) {
    failure.code = kInternalFailure;
    failure.message = "ended before the run did, with exit code 0";
  }
  return failure;
}

const Failure& Failures::cause() const {
  auto real = std::find_if(failures_.begin(), failures_.end(),
                           [](const Failure& failure) { return failure.code != kPeerFailure; });
  if (real != failures_.end()) return *real;
  auto machine =
      std::find_if(failures_.begin(), failures_.end(), [](const Failure& failure) { return failure.rank < 0; });
  return machine != failures_.end() ? *machine : failures_.front();
}

bool Failures::is_shared() const {
  const Failure& first = cause();
  return std::count_if(failures_.begin(), failures_.end(), [&](const Failure& failure) {
           return failure.code == first.code && failure.message == first.message;
         }) > 1;
}

}  // namespace trainer::launch
