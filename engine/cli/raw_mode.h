// A terminal whose keys arrive one by one.
#pragma once

#include <signal.h>
#include <termios.h>

namespace trainer::cli {

/// Until the end of the scope, keys arrive one by one without echo. However the program ends or is stopped meanwhile
/// (signals, Ctrl-C, Ctrl-Z), the terminal is restored; after Ctrl-Z and `fg` it is in raw mode again.
/// Only one can exist at a time, and standard input must be a terminal.
class RawMode {
 public:
  RawMode();
  ~RawMode();
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

  /// The signals blocked while waiting for a key. At other times Ctrl-Z and window resizes are blocked too: one that
  /// came just before a read would not interrupt it, and nothing would be redrawn.
  static const sigset_t* mask_while_waiting();

  /// True once after the program continued from a stop or the window was resized: what was drawn may have moved.
  static bool take_disturbance();
};

}  // namespace trainer::cli
