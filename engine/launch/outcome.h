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
  std::string phase;    // what it was doing, in one word; may be ""
  std::string message;  // what and why; further lines are indented
  RankStates ranks{};   // the state of each rank of this machine; empty on success
  std::string machine;  // the rank's machine, when there are several: "machine 1 (node-b, 10.0.0.2)"
  int restarts = 0;     // caused by losses so far
  bool again = false;   // the run isn't over: it is started once more
  bool grows = false;   // started again with more machines; doesn't count as a restart
};

/// What is saved and how to resume.
struct Kept {
  std::string checkpoint{};  // the newest one; "" when there is none
  bool resumes = true;       // the same command resumes from it
  bool wrote_nothing = false;
  bool temporary = false;    // the output folder is deleted after the command: nobody looks for it
  bool elsewhere = false;    // another machine leads, and this one doesn't see its checkpoints
  std::string replicated{};  // the newest of which other machines keep all copies; "": none is known
  std::string unreadable{};  // why output_dir can't be read, and it is unknown what is saved; "": it can
  int64_t leader_epoch = 0;  // under which the newest checkpoint was saved: Note [Leader epochs]
};

/// The newest checkpoint in `output_dir`; "" when there is none. Errors: MachineError when it can't be read.
std::string newest_checkpoint(const std::filesystem::path& output_dir);

/// The closing block, of at most 6 lines; "" on success.
std::string closing_block(const Outcome& outcome, const Kept& kept, const std::string& output_dir);

/// The first line of the closing block: "trainer: rank 1, step 5: killed by signal 9 (SIGKILL)".
std::string closing_line(const Outcome& outcome);

/// Writes `output_dir`/outcome.json. Errors: MachineError.
void write_outcome(const Outcome& outcome, const Kept& kept, const std::filesystem::path& output_dir);

}  // namespace trainer::launch
