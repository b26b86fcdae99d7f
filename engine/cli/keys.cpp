#include "engine/cli/keys.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "engine/cli/raw_mode.h"

namespace trainer::cli {
namespace {

constexpr int kEscape = 27, kControlD = 4, kBackspace = 127, kControlH = 8;
constexpr int kNothing = -1, kInterrupted = -2;

int read_byte() {
  pollfd standard_input{STDIN_FILENO, POLLIN, 0};
  if (ppoll(&standard_input, 1, nullptr, RawMode::mask_while_waiting()) < 0 && errno == EINTR) return kInterrupted;
  unsigned char byte;
  const ssize_t count = read(STDIN_FILENO, &byte, 1);
  if (count == 1) return byte;
  return count < 0 && errno == EINTR ? kInterrupted : kNothing;
}

/// The rest of a key sequence arrives at once; after a lone Escape nothing follows.
bool more_is_there() {
  constexpr int kMilliseconds = 50;
  pollfd standard_input{STDIN_FILENO, POLLIN, 0};
  return poll(&standard_input, 1, kMilliseconds) == 1;
}

/// What follows Escape: "[A", "OA", "[1~", "[1;5A".
std::string read_sequence() {
  std::string sequence;
  while (more_is_there() && sequence.size() < 16) {
    const int byte = read_byte();
    if (byte < 0) break;
    sequence += static_cast<char>(byte);
    const bool introduces = sequence.size() == 1 && (byte == '[' || byte == 'O');
    if (!introduces && byte >= '@' && byte <= '~') break;
  }
  return sequence;
}

Pressed meaning(const std::string& sequence) {
  if (sequence.empty() || (sequence[0] != '[' && sequence[0] != 'O')) return {Key::kOther};
  switch (sequence.back()) {
    case 'A':
      return {Key::kUp};
    case 'B':
      return {Key::kDown};
    case 'D':
      return {Key::kBack};
    case 'H':
      return {Key::kFirst};
    case 'F':
      return {Key::kLast};
    default:
      break;
  }
  const std::string inside = sequence.substr(1);
  if (inside == "1~" || inside == "7~" || inside == "5~") return {Key::kFirst};
  if (inside == "4~" || inside == "8~" || inside == "6~") return {Key::kLast};
  return {Key::kOther};
}

}  // namespace

Pressed read_key() {
  const int byte = read_byte();
  if (RawMode::take_disturbance() || byte == kInterrupted) return {Key::kRedraw};
  switch (byte) {
    case kNothing:
    case kControlD:
      return {Key::kEnd};
    case '\n':
    case '\r':
      return {Key::kEnter};
    case 'k':
      return {Key::kUp};
    case 'j':
      return {Key::kDown};
    case '<':
    case 'b':
    case kBackspace:
    case kControlH:
      return {Key::kBack};
    case '?':
      return {Key::kHelp};
    case kEscape:
      return meaning(read_sequence());
    default:
      break;
  }
  if (byte >= '0' && byte <= '9') return {Key::kDigit, static_cast<std::size_t>(byte - '0')};
  return {Key::kOther};
}

}  // namespace trainer::cli
