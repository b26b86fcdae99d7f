// A run outlives the loss of a rank or a machine: it begins another life from its newest checkpoint.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/config/plan.h"
#include "engine/launch/outcome.h"

namespace trainer::launch {

// Note [Lives]
// A life is the time from the start of all ranks to the end of the last one. When it ends by the loss of a rank or a
// machine, all ranks of all machines are started again (max_restarts times at most) and go on from the newest complete
// checkpoint, so that the numbers are those of a run that nothing happened to. What a life loses is what it did since
// its last save. A cause that would come back (a mistake in the configuration, the data or the program, a full disk, a
// loss that isn't finite) ends the run at once, as do three ends in a row at the same step: a cause that looks like bad
// luck, and isn't.
// With several machines, machine 0 decides and tells the others; between two lives they part, and meet again as they
// met at first. So a machine that was lost may come back: its `trainer launch` started again joins the next life.

/// Whether a run that ended with exit code `code` may go well when it is started again.
bool worth_another_life(int code);

class Lives {
 public:
  Lives(const config::Config& config, std::chrono::milliseconds first_pause);

  /// The life that runs, or is about to: 0 is the first.
  int number() const { return number_; }
  /// Its plan: `given`, but from the newest checkpoint that this run has made.
  config::Plan plan(const config::Plan& given) const;

  /// Judges the end of a life: sets `outcome.again` when another one follows, and else, when that is because restarts
  /// are spent or don't help, makes it kGaveUp and says so.
  void judge(Outcome& outcome);
  /// The next life begins, as `ended` says; returns for how long to wait before: not at all when the last life got
  /// further than the one before, and else longer each time.
  std::chrono::milliseconds begin_next(const Outcome& ended);
  /// "restart 2 of 5, from /out/checkpoint-40".
  std::string text() const;

 private:
  int64_t max_;
  std::filesystem::path output_dir_;
  std::chrono::milliseconds first_pause_;
  std::string checkpoint_before_;  // the newest of earlier runs
  int number_ = 0;
  int without_progress_ = 0;                                 // lives in a row that ended where the one before did
  std::optional<std::pair<std::string, int64_t>> last_end_;  // the newest checkpoint, and the step
};

}  // namespace trainer::launch
