// The parts of an update, for profilers.
#pragma once

#include <ATen/record_function.h>

namespace trainer::dist {

namespace step_phase {
inline constexpr const char *kData = "data", *kForward = "forward", *kBackward = "backward", *kClipping = "clipping",
                            *kOptimizer = "optimizer";
}  // namespace step_phase

/// During its lifetime, profilers see a user scope of this name. Nothing happens without an observer.
class StepPhase {
 public:
  explicit StepPhase(const char* name) : scope_(at::RecordScope::USER_SCOPE) {
    if (scope_.isActive()) scope_.before(name);
  }

 private:
  at::RecordFunction scope_;
};

}  // namespace trainer::dist
