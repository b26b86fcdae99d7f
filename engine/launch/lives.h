// A run outlives the loss of a rank or a machine: it begins another life from its newest checkpoint.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/config/plan.h"
#include "engine/launch/outcome.h"
#include "engine/launch/terms.h"

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
// Where the number of machines is a range, machine 0 goes on listening, and whoever comes while a life runs is held at
// the door. When the run can go on with more machines, and these are prepared, the ranks save after their update and
// stop, and the next life has them too; that costs no restart. (A save that fails lets them go on until one works.)
// When one is lost, the next life begins without it if it is not back within last_call and there are still enough.
// Machine 0 has to be there: it is where the others meet. When it is lost they all look for it, as long as for the
// first meeting; for those who waited at the door no life has ended, and so that costs them no restart. Ranks of a
// machine that the network has lost may live on for seconds, beside those of the next life. Nothing of them counts:
// what they say is lost with their line, and what they write of a checkpoint goes into a folder that bears the id of
// their own life, which is removed. Should machine 0 itself have been started elsewhere, the old one finds its output
// folder taken over (FolderOwner), and ends.

/// Whether a run that ended with exit code `code` may go well when it is started again.
bool worth_another_life(int code);

class Lives {
 public:
  Lives(const config::Config& config, std::chrono::milliseconds first_pause);

  /// The life that runs, or is about to; machine 0 says the same of it to all.
  Terms terms() const;
  /// Guests take machine 0's numbers.
  void take(const Terms& terms);

  /// Judges the end of a life: sets `outcome.again` when another one follows, as it does when it `grows`, and else,
  /// when that is because restarts are spent or don't help, makes it kGaveUp and says so.
  void judge(Outcome& outcome);
  /// The next life begins, as `ended` says; returns for how long to wait before: not at all when the last life got
  /// further than the one before, and else longer each time.
  std::chrono::milliseconds begin_next(const Outcome& ended);
  /// "restart 2 of 5, from /out/checkpoint-40", after `ended`.
  std::string text(const Outcome& ended) const;

 private:
  bool has_saved() const { return newest_checkpoint(output_dir_) != checkpoint_before_; }

  int64_t max_;
  std::filesystem::path output_dir_;
  bool is_host_;
  std::chrono::milliseconds first_pause_;
  std::string checkpoint_before_;  // the newest of earlier runs
  int number_ = 0;
  int restarts_ = 0;
  int without_progress_ = 0;                                 // lives in a row that ended where the one before did
  std::optional<std::pair<std::string, int64_t>> last_end_;  // the newest checkpoint, and the step
};

}  // namespace trainer::launch
