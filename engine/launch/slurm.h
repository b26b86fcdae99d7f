// What only SLURM knows about its nodes and its settings; asked of `scontrol`.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace trainer::launch {

/// `host`, or the address that SLURM has for it (NodeAddr) if the name can't be resolved here, or only as this very
/// machine (127.0.1.1 in Debian's /etc/hosts), where other machines can't reach it. Reports what it replaces.
std::string reachable_name(const std::string& host);

/// How long after SIGTERM SLURM sends SIGKILL to a job that it cancels, preempts or requeues (KillWait). None outside
/// of a job, or if `scontrol` doesn't answer.
std::optional<std::chrono::seconds> slurm_kill_wait();

/// The value of `name` in what `scontrol` prints, "name=value" or "name = value", up to the next white space; "" if it
/// is absent.
std::string scontrol_value(const std::string& printed, const std::string& name);

}  // namespace trainer::launch
