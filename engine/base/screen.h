// Output for users: to a terminal, or to the pipe or file in its place.
#pragma once

#include <unistd.h>

#include <exception>
#include <string_view>

#include <fmt/format.h>

namespace trainer::screen {

// Note [Lost screens]
// A run survives the loss of its output: a closed terminal, a `tee` that Ctrl-C ended, a full disk, a terminal paused
// with Ctrl-S. `trainer launch`, its ranks and trainer-prepare call outlive(), and print only through this header.
// Output that a screen doesn't accept is dropped; logs/rank-N.log and metrics.jsonl have it. A command whose purpose is
// its output (`trainer explain | head`) ends as other tools do: by SIGPIPE, or through finish_output().

/// Writes `text`, as far as `fd` accepts it. Never throws. Waits at most five seconds for a screen that accepts
/// nothing, and then no longer until it accepts output again. A reader that closes its end doesn't end the process.
void write(int fd, std::string_view text) noexcept;

/// Clears what a terminal's line shows, such as a progress bar, to write over it.
inline constexpr const char* kClearLine = "\r\x1b[K";

/// What a line to `fd` begins with, so that it replaces an unfinished progress bar: kClearLine on a terminal, else "".
inline const char* over_progress_bar(int fd) {
  return isatty(fd) == 1 ? kClearLine : "";
}

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

/// From now on, neither a reader that closes its end (SIGPIPE), nor terminal output from the background (SIGTTOU), nor
/// a file that grows beyond `ulimit -f` (SIGXFSZ; the write fails with EFBIG) ends or stops this process or the
/// programs that it executes.
void outlive();

/// Opens the standard descriptors that are closed (`>&-`), so that no other file gets their numbers and receives output
/// for users. Writing to them is still an error. Must be called first in main().
void open_missing();

/// Whether `failure` is that of fmt::print() to standard output; finish_output() then reports it.
bool is_lost_output(const std::exception& failure);

/// Must be called last in main(): flushes stdio and returns `code`. If that or an earlier write to standard output has
/// failed, prints why and returns kMachineFailure instead of 0; if the reader has closed its end, SIGPIPE ends the
/// program.
int finish_output(int code);

}  // namespace trainer::screen
