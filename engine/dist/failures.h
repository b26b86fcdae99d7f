// What exceptions of libtorch's collectives and devices mean. NCCL, Gloo and CUDA say it in their text only.
#pragma once

#include <stdexcept>
#include <string>

#include "engine/base/errors.h"

namespace trainer::dist {

enum class Failure {
  kUnknown,
  kMistake,      ///< what only a mistake of ours can cause
  kMemory,       ///< the device's memory, or this machine's, is exhausted
  kMachine,      ///< this machine: a GPU, its driver, a limit, a container's settings
  kLostRank,     ///< another rank ended, or the network between them failed
  kTamperedLink  ///< what arrived is not what the other rank sent
};

/// Recognizes the message of an exception, wherever it was thrown: no code of ours is in between to translate those of
/// c10d's own Reducer and of NCCL's watchdog.
Failure failure_of(const std::string& message);
/// That in words, and for kMachine what to do: "another rank was lost".
std::string meaning_of(const std::string& message);
/// The message's lines for the block of an error, which has few: NCCL's reason follows its heading on the same line.
std::string details_of(const std::string& message);

/// Throws what `error`, of the collective `what`, means: that memory is exhausted, a mistake of ours, a fault of this
/// machine, or (whatever isn't recognized) that another rank was lost. All of its lines are kept, because NCCL's last
/// line is often the reason.
[[noreturn]] void throw_translated(const char* what, const std::exception& error);

/// Runs a collective and translates the library's exceptions into ours.
template <class F>
auto translated(const char* what, const F& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw_translated(what, error);
  }
}

}  // namespace trainer::dist
