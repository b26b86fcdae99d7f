// The time of an update by phase.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

#include <ATen/record_function.h>

namespace trainer::train {

/// In the order in which they are shown. kExchange is the time in which a rank waits for others, in whichever phase;
/// what of it overlaps with computation doesn't count. kOther: what no other phase covers.
enum class Phase { kData, kForward, kBackward, kExchange, kClipping, kOptimizer, kOther };
constexpr size_t kPhases = 7;
const char* name_of(Phase phase);

using PhaseSeconds = std::array<double, kPhases>;

/// Observes the step phases (engine/dist/step_phase.h) of the thread that made it, during its lifetime. At a time, one.
/// At the ends of a phase it waits for `device`, so that the phase includes what it has launched there.
class PhaseClock {
 public:
  explicit PhaseClock(at::Device device);
  ~PhaseClock();
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

  /// Ends an update: its seconds since the last call or the construction, by phase.
  PhaseSeconds lap();

  /// For the observer.
  void begin(std::string_view name);
  void end();

 private:
  /// Gives the seconds since the last call to the innermost phase, and those of waiting to kExchange.
  void settle();

  at::Device device_;
  at::CallbackHandle handle_;
  std::chrono::steady_clock::time_point since_;
  double waited_;
  PhaseSeconds seconds_{};
  std::vector<Phase> open_;  // outermost first
};

}  // namespace trainer::train
