// A run survives the loss of a rank or a machine: it is restarted from its newest checkpoint.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "engine/config/plan/plan.h"
#include "engine/launch/outcome.h"
#include "engine/launch/terms.h"

namespace trainer::launch {

// Note [Attempts]
// An attempt lasts from the start of all ranks to the end of the last one. When an attempt ends by the loss of a rank
// or a machine, all ranks of all machines are restarted (at most max_restarts times) from the newest complete
// checkpoint, so that the results equal those of an undisturbed run. Only the work since the last save is lost.
// Failures that a restart cannot fix (a mistake in the configuration, the data or the program, a full disk, a
// non-finite loss) end the run at once, as do three failures in a row at the same step.
// With several machines, machine 0 decides and informs the others. Between two attempts the machines disconnect and
// meet again as at first, so a machine that was lost may return: its `trainer launch`, started again, joins the next
// attempt. When the number of machines is a range, attempts that differ in their machines are generations: machine 0
// keeps listening, and a machine that connects during an attempt waits. Once the run can continue with more machines
// and these are prepared, the ranks save after their update and stop, and the next generation includes the new
// machines; this costs no restart. (If the save fails, the ranks continue until one succeeds.) When a machine is lost,
// the next generation starts without it if it doesn't return within last_call and enough machines are left.
// When machine 0 is lost, the others look for it, for as long as in the first meeting, or one of them succeeds it (Note
// [Succession]); a machine that was waiting to join has lost no attempt, so this costs it no restart. Ranks of a
// machine that the network has cut off may run on for seconds, in parallel with those of the next attempt. Nothing they
// do counts: their messages are lost with their connection, and their part of a checkpoint goes to a folder that bears
// the id of their own attempt, which is removed. If machine 0 itself was started elsewhere, the old one finds its
// output folder taken over (FolderOwner) and exits.

/// `message` with `line` inserted after its first line, which says what happened.
std::string with_second_line(const std::string& message, const std::string& line);

/// Whether a run that ended with exit code `code` may succeed when it is restarted.
bool worth_another_attempt(int code);

class Attempts {
 public:
  Attempts(const config::Config& config, std::chrono::milliseconds first_pause);

  /// The current attempt, or the next one to start; machine 0 sends it to all machines. Errors: MachineError when
  /// output_dir can't be read, so that a restart never begins again in ignorance of what is saved.
  Terms terms() const;
  /// Followers adopt machine 0's numbers.
  void take(const Terms& terms);

  /// Judges the end of an attempt: sets `outcome.again` when another one follows, as always when it `grows`. When
  /// restarts are spent or don't help, sets the code to kGaveUp and adds the reason to the message. `why_not`: why no
  /// attempt can follow, which is added instead; "" if one can.
  void judge(Outcome& outcome, const std::string& why_not = "");
  /// Begins the next attempt after `ended`. Returns how long to pause first: zero when the last attempt got further
  /// than the one before, else longer each time.
  std::chrono::milliseconds begin_next(const Outcome& ended);
  /// "restart 2 of 5, from /out/checkpoint-40", after `ended`. `sees_checkpoints`: output_dir holds the leader's.
  std::string text(const Outcome& ended, bool sees_checkpoints) const;

 private:
  /// Looks for the newest checkpoint. An output_dir that can't be read now leaves the last one known.
  void look();
  bool has_saved(const std::string& newest) const { return resumes_ || newest != checkpoint_before_; }

  int64_t max_;
  std::filesystem::path output_dir_;
  bool is_host_;
  std::chrono::milliseconds first_pause_;
  std::string checkpoint_before_;  // the newest one of earlier runs
  std::string newest_;             // the newest one seen
  int number_ = 0;
  int restarts_ = 0;
  bool resumes_ = false;      // as the leader reports: the run had saved before this machine joined
  int without_progress_ = 0;  // attempts in a row that ended where the one before did
  std::optional<std::pair<std::string, int64_t>> last_end_;  // the newest checkpoint, and the step
};

}  // namespace trainer::launch
