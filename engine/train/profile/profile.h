// Where the time of an update goes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/profile/machine_peak.h"
#include "engine/train/profile/operators.h"
#include "engine/train/profile/phase_clock.h"
#include "engine/train/trainer.h"

namespace trainer::train {

struct ProfileRequest {
  int64_t warmup = 3;  // updates that aren't measured
  int64_t steps = 10;  // measured by phase, and as many again by operator
  std::string trace;   // a file for rank 0's Chrome trace; "": none
};

/// Seconds are of an update, on average.
struct Profile {
  ProfileRequest request;
  std::string device;  // "the CPU"
  std::string dtype;   // of matrix products
  int64_t ranks = 1, threads = 1;

  double seconds = 0;            // rank 0's
  double tokens_per_second = 0;  // of all ranks
  PhaseSeconds phases{};         // rank 0's; their sum is `seconds`
  struct Slowest {
    int64_t rank = 0;
    double seconds = 0;
  };
  std::array<Slowest, kPhases> slowest;  // of all ranks

  std::vector<OperatorTime> operators;  // rank 0's, those that take the most time first
  double recorded_seconds = 0;          // rank 0's, while operators are recorded
  MachinePeak peak;                     // of rank 0, while all ranks measure it

  int64_t resident_bytes = 0, tensor_bytes = 0;  // the peaks of the rank that has most

  /// Of recorded updates: the part in matrix products, and in attention.
  double share_of(Work work) const;
  /// Of products whose FLOPs are known, in an update of rank 0.
  double flops() const;
  /// By how much recording operators slows an update down: 0.05 is 5 %.
  double overhead() const { return seconds > 0 ? recorded_seconds / seconds - 1 : 0; }
};

/// Collective. Makes request.warmup + 2 * request.steps updates of `trainer`. Complete on rank 0; nothing when the run
/// was asked to stop. Errors: those of training; MachineError when the trace can't be written.
std::optional<Profile> profile(Trainer& trainer, dist::Comm& comm, const ProfileRequest& request);

/// At most 80 columns wide; operators that take little time are summed up.
std::string profile_text(const Profile& profile);
/// One JSON object, with all operators.
std::string profile_json(const Profile& profile);

}  // namespace trainer::train
