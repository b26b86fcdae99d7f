// Writing to people: to a terminal, or to the pipe or the file in its place.
#pragma once

#include <unistd.h>

#include <exception>
#include <string_view>

#include <fmt/format.h>

namespace trainer::screen {

// Note [Lost screens]
// A run outlives what it writes to: a terminal that was closed, a `tee` that Ctrl-C ended, a full disk, a terminal that
// somebody holds with Ctrl-S. `trainer launch`, its ranks and trainer-prepare call outlive(), and write here only. What
// a screen doesn't take is dropped; logs/rank-N.log and metrics.jsonl have it. A command whose purpose is its output
// (`trainer explain | head`) ends as other tools do: by SIGPIPE, or through finish_output().

/// Writes `text`, as far as `fd` takes it. Never throws. Waits at most five seconds for a screen that takes nothing,
/// and from then on not at all until it takes something again. Needs outlive() where the reader may go.
void write(int fd, std::string_view text) noexcept;

/// Writes a formatted text to standard error.
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(STDERR_FILENO, fmt::format(format, std::forward<Args>(args)...));
}

/// Writes a formatted text to standard output.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write(STDOUT_FILENO, fmt::format(format, std::forward<Args>(args)...));
}

/// From now on neither a reader that goes (SIGPIPE) nor a terminal that a job in the background writes to (SIGTTOU)
/// ends or stops this process, nor the programs that it becomes.
void outlive();

/// Opens the standard descriptors that are closed (`>&-`), so that no other file gets their numbers and what is written
/// to people. Writing to them stays an error. To be called first in main().
void open_missing();

/// Whether `failure` is that of fmt::print() to standard output, which is then finish_output()'s to tell.
bool is_lost_output(const std::exception& failure);

/// Last in main(): writes out what stdio holds and returns `code`. Where that, or an earlier write to standard output,
/// fails, it prints why and returns kMachineFailure instead of 0; when the reader has gone, SIGPIPE ends the program.
int finish_output(int code);

}  // namespace trainer::screen
