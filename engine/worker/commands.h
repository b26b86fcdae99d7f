// What trainer-worker does, a function a command. Users call them through `trainer`.
#pragma once

#include <string>
#include <vector>

namespace trainer::worker {

/// One rank of a run; started by the supervisor. Returns the exit code and never throws: failures go to the supervisor.
int rank_command();

/// `check`: reads everything a run would read, for the plan on the file descriptor TRAINER_PLAN_FD, and prints what it
/// would do. Nothing is written. Errors: those of the plan's inputs.
int check_command();

/// `dump-logits --model FOLDER [--adapter FOLDER] --samples FILE --output FILE`: the logits of teacher forcing, for
/// comparison with other programs. FILE: {"samples": [{"source": [ids], "labels": [ids]}]}; the output holds
/// `logits_<i>` [labels, vocabulary] a sample.
int dump_logits_command(const std::vector<std::string>& args);

}  // namespace trainer::worker
