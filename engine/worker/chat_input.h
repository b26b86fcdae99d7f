#pragma once

#include <atomic>
#include <string>

namespace trainer::worker {

/// The lines that a person types, and Ctrl-C. There is one per process.
class ChatInput {
 public:
  /// From now on, SIGINT doesn't end the process.
  ChatInput();
  ~ChatInput();
  ChatInput(const ChatInput&) = delete;
  ChatInput& operator=(const ChatInput&) = delete;

  /// Waits for a line. False at the end of the input (Ctrl-D), and when SIGINT arrives.
  bool next(std::string& line);
  /// Whether SIGINT has arrived since the last call to forget_interrupt().
  bool interrupted() const;
  void forget_interrupt();

 private:
  bool read_more();

  std::string buffer_;  // read, but no line yet
};

}  // namespace trainer::worker
