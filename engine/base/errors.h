// Error classes, by who has to act. Each class has one exit code: the contract of `trainer launch`.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace trainer {

/// Exit codes of every command.
enum ExitCode : int {
  kDone = 0,
  kInternalFailure = 1,  ///< our bug
  kUsageFailure = 2,     ///< usage or configuration; nothing was started
  kInputFailure = 3,     ///< bad input file: data, tokenizer, model, checkpoint
  kMachineFailure = 4,   ///< this machine: port, disk, permission, memory, device
  kNumericFailure = 5,   ///< non-finite or diverged
  kPeerFailure = 6,      ///< a peer or the network
  kGaveUp = 7,           ///< restarts spent or no progress: do not requeue
  kInterrupted = 130,    ///< Ctrl-C; saved
  kStopRequested = 143,  ///< asked to stop; saved, requeue
};

/// The base of all our errors. `what()` is the whole message: at most 6 lines, saying what, where, why and how to
/// continue.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

#define TRAINER_ERROR_CLASS(Name, code)                                                             \
  class Name : public Error {                                                                       \
   public:                                                                                          \
    explicit Name(const std::string& message) : Error(code, message) {}                             \
    template <class... Args>                                                                        \
    requires(sizeof...(Args) > 0) explicit Name(fmt::format_string<Args...> format, Args&&... args) \
        : Error(code, fmt::format(format, std::forward<Args>(args)...)) {}                          \
  }

TRAINER_ERROR_CLASS(InternalError, kInternalFailure);
TRAINER_ERROR_CLASS(ConfigError, kUsageFailure);
TRAINER_ERROR_CLASS(InputError, kInputFailure);
TRAINER_ERROR_CLASS(MachineError, kMachineFailure);
TRAINER_ERROR_CLASS(NumericError, kNumericFailure);
TRAINER_ERROR_CLASS(PeerError, kPeerFailure);

#undef TRAINER_ERROR_CLASS

/// Throws InternalError when `condition` is false: for internal invariants only, never for errors that a user can
/// cause.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw InternalError("{}", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trainer
