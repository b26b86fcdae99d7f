// Follows metrics.jsonl while rank 0 writes it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trainer::tracking {

/// The numbers of one line.
struct Values {
  int64_t step = 0;
  bool is_evaluation = false;
  std::map<std::string, double> numbers;
};

/// What was sent: later lines of each kind follow.
struct Sent {
  int64_t step = -1, evaluation = -1;
};

/// Reads the new lines of the file, which is also the buffer while the server can't be reached. A restart of the ranks
/// replaces the file, without the updates after the checkpoint, which are then repeated: a step is returned only once.
class MetricsTail {
 public:
  /// `is_new`: the run starts from scratch, so a file that exists already is an earlier run's, until it is replaced.
  MetricsTail(std::filesystem::path file, bool is_new, Sent sent);

  /// The next lines, at most `most`; none at the end of what is written.
  std::vector<Values> next(size_t most);

 private:
  bool reopen();

  std::filesystem::path file_;
  ino_t ignored_ = 0, inode_ = 0;
  int64_t offset_ = 0;
  Sent sent_;
};

}  // namespace trainer::tracking
