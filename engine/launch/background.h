// Work beside the launcher's loop.
#pragma once

#include <chrono>
#include <future>
#include <system_error>

#include "engine/base/errors.h"
#include "engine/base/signals_blocked.h"

namespace trainer::launch {

/// While something is in progress in the background, the launcher looks at it this often.
inline constexpr std::chrono::milliseconds kLookAgain{3};

/// Runs `work` in a thread that takes no signals. Errors: MachineError when there can be no thread.
template <class F>
auto in_background(F work) {
  const AllSignalsBlocked inherited_by_the_thread;
  try {
    return std::async(std::launch::async, std::move(work));
  } catch (const std::system_error& error) {
    throw MachineError("cannot start a thread: {}", error.what());
  }
}

template <class T>
bool is_done(const std::future<T>& work) {
  return work.valid() && work.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace trainer::launch
