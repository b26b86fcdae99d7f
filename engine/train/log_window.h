// The updates since the last logged step.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/profile/phase_clock.h"

namespace trainer::train {

/// Sums up updates until they are logged, for speeds and times that are means over all of them.
class LogWindow {
 public:
  /// An update that used `tokens` tokens. `efficiency`: as a fraction of what the ranks had time for. `seconds` of the
  /// whole update, `data_seconds` of them waiting for the batch.
  void add(int64_t tokens, double efficiency, double seconds, double data_seconds);

  /// The same update's time by phase.
  void add(const PhaseSeconds& phases);

  double tokens_per_second() const { return static_cast<double>(tokens_) / seconds_; }
  double step_seconds() const { return seconds_ / static_cast<double>(steps_); }
  double data_wait_seconds() const { return data_seconds_ / static_cast<double>(steps_); }
  /// The mean of each phase but kData; empty if none was added.
  std::vector<std::pair<std::string, double>> phase_seconds() const;
  /// The mean over tokens; 1 without any.
  double efficiency() const { return paid_tokens_ > 0 ? static_cast<double>(tokens_) / paid_tokens_ : 1; }

 private:
  int64_t tokens_ = 0, steps_ = 0;
  double seconds_ = 0, data_seconds_ = 0;
  double paid_tokens_ = 0;  // tokens / efficiency
  PhaseSeconds phases_{};
  bool has_phases_ = false;
};

}  // namespace trainer::train
