// The parameters of one attempt of a run.
#pragma once

#include <string>

namespace trainer::launch {

/// Machine 0 sets them, and sends them to its followers once it knows which machines take part.
struct Terms {
  int attempt = 0;           // the attempt's number; 0: the first
  int restarts = 0;          // caused by losses so far
  bool resumes = false;      // from the newest checkpoint, which the run itself has saved
  int machine = 0;           // the receiving machine's number among those of this attempt, without gaps
  int machines = 1;          // of this attempt
  std::string attempt_id{};  // the attempt's unique id
};

}  // namespace trainer::launch
