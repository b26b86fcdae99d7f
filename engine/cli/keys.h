// Keys of a terminal in raw mode.
#pragma once

#include <cstddef>

namespace trainer::cli {

enum class Key {
  kUp,
  kDown,
  kFirst,  // Home, page up
  kLast,   // End, page down
  kEnter,
  kDigit,
  kBack,    // left arrow, backspace, <, b
  kHelp,    // ?
  kEnd,     // Ctrl-D, or the terminal is gone
  kRedraw,  // the window was resized, or the program was stopped and continued
  kOther
};

struct Pressed {
  Key key;
  std::size_t digit = 0;
};

/// Waits for a key.
Pressed read_key();

}  // namespace trainer::cli
