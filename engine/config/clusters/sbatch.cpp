// A batch script for SLURM.
#include "engine/config/clusters/cluster_job.h"

namespace trainer::config {
namespace {

// srun runs in the background, as bash handles signals only while it waits: `sbatch --signal=B:…` reaches only the
// shell. When the job is canceled, SIGTERM ends the shell before it can requeue the job.
constexpr const char* kScript = R"(#!/bin/bash
# Written by `trainer launch --emit sbatch`. Start it with `sbatch FILE`; add --time, --partition and --account as your
# cluster demands. See docs/clusters.md.
#SBATCH --job-name=$NAME
#SBATCH --chdir=$FOLDER
#SBATCH --nodes=$MACHINES
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=$CPUS
@if GPU_LINE #SBATCH --gres=gpu:$GPUS
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
# Before the time limit every task gets USR1: the run saves and ends with 143.
#SBATCH --signal=USR1@$GRACE

@if MACHINES # The machines' common secret, in a file that all of them see and only this user can read.
@if MACHINES export TRAINER_SECRET_FILE=$PWD/.trainer-secret-$SLURM_JOB_ID
@if MACHINES trap 'rm -f "$TRAINER_SECRET_FILE"' EXIT
@if MACHINES (umask 077 && head -c 32 /dev/urandom | base64 >"$TRAINER_SECRET_FILE") || exit 4
@if MACHINES 
@if PORT export MASTER_PORT=$PORT
# One task a node, which starts the node's ranks. The machines meet on a port that follows from the job's number, unless
# MASTER_PORT or main_process_port is set. --kill-on-bad-exit ends the step when a task could not even start.
srun --kill-on-bad-exit=1 $COMMAND &
step=$!
trap 'asked=yes; kill -USR1 "$step"' USR1  # sbatch --signal=B:USR1@N reaches only this shell
wait "$step"
code=$?
while [ -n "${asked:-}" ]; do
  asked=
  wait "$step"
  code=$?
done
# 143: stopped and saved. The job waits in the queue again, and continues from its checkpoint.
if [ "$code" = 143 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
)";

constexpr int64_t kMargin = 35;  // SLURM looks at its time limits only every 30 seconds

/// As a word of a shell.
std::string shell_word(const std::string& text) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

std::string sbatch_text(const ClusterJob& job) {
  std::string command = shell_word(job.program);
  for (const std::string& argument : job.arguments) command += " " + shell_word(argument);
  return filled(kScript, {{"NAME", job.name},
                          {"FOLDER", quoted(job.folder)},
                          {"MACHINES", std::to_string(job.machines)},
                          {"CPUS", std::to_string(job.cpus)},
                          {"GPU_LINE", job.gpus > 0 ? "yes" : ""},
                          {"GPUS", std::to_string(job.gpus)},
                          {"GRACE", std::to_string(job.grace_seconds + kMargin)},
                          {"PORT", job.port > 0 ? std::to_string(job.port) : ""},
                          {"COMMAND", command}});
}

}  // namespace trainer::config
