// What a life of a run on several machines is.
#pragma once

#include <string>

namespace trainer::launch {

/// Machine 0 sets them, and tells its guests, as soon as it is known who takes part.
struct Terms {
  int life = 0;           // 0: the first
  int restarts = 0;       // that losses have cost
  bool resumes = false;   // from the newest checkpoint, which the run itself has made
  int machine = 0;        // the number of the one that they are for, among those of this life, without gaps
  int machines = 1;       // of this life
  std::string attempt{};  // no other life has it
};

}  // namespace trainer::launch
