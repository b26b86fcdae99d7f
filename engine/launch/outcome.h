// How a run ended, for people (one block, last on the screen) and for programs (outcome.json).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/launch/verdict.h"

namespace trainer::launch {

struct Outcome {
  int code = 0;         // the exit code
  int rank = -1;        // the rank that was the cause; -1: none, or all of them
  int64_t step = -1;    // -1: before the first one
  std::string phase;    // what it was doing, in a word; may be ""
  std::string message;  // what and why; further lines are indented
  RankStates ranks{};   // where each rank of this machine was; empty when all went well
  std::string machine;  // the rank's, where there are several: "machine 1 (node-b, 10.0.0.2)"
  int restarts = 0;     // that losses have cost so far
  bool again = false;   // the run is not over: it is started once more
  bool grows = false;   // with more machines, which is no loss
};

/// What is kept and how to go on.
struct Kept {
  std::string checkpoint;  // the newest one; "" when there is none
  bool resumes = true;     // the same command goes on from it
  bool wrote_nothing = false;
  bool elsewhere = false;  // machine 0 keeps the checkpoints, and what is seen here is not all
};

/// The checkpoint-N of the largest N in `output_dir`; "" when there is none.
std::string newest_checkpoint(const std::filesystem::path& output_dir);

/// The closing block, of at most 6 lines; "" when all went well.
std::string closing_block(const Outcome& outcome, const Kept& kept, const std::string& output_dir);

/// The first line of it: "trainer: rank 1, step 5: killed by signal 9 (SIGKILL)".
std::string closing_line(const Outcome& outcome);

/// Writes `output_dir`/outcome.json. Errors: MachineError.
void write_outcome(const Outcome& outcome, const Kept& kept, const std::filesystem::path& output_dir);

}  // namespace trainer::launch
