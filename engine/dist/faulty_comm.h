#pragma once

#include <functional>
#include <optional>

#include "engine/base/file_operations.h"
#include "engine/dist/comm.h"

namespace trainer::dist {

/// A fault that is injected to test how a run handles it: docs/fault_injection.md.
struct Fault {
  enum class Kind { kSkip, kOther, kSize, kStop, kKill, kSlow, kFileError, kNan };
  Kind kind{};
  int rank = 0;
  int64_t step = 1;
  int attempt = 0;      // see Note [Attempts] in engine/launch/attempts.h
  double seconds = 10;  // of kSlow, at each strike
  int64_t times = 1;    // kSlow: in this many consecutive steps
  int64_t file = 0;     // kKill, kStop, kFileError: in the n-th file operation of a save
  int error = 0;        // errno of kFileError
};

/// The fault that TRAINER_INJECT asks for: "skip:rank=1,step=3". Errors: ConfigError.
std::optional<Fault> fault_from_environment();

/// The file fault for this rank's saves, if there is one.
std::optional<file_operations::Fault> file_fault(const Fault& fault, int rank);

/// A communicator in which `fault` strikes at its rank's first collective once `step()` has reached its step.
std::unique_ptr<Comm> faulty_comm(std::unique_ptr<Comm> comm, const Fault& fault, std::function<int64_t()> step);

}  // namespace trainer::dist
