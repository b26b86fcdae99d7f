#include "engine/train/log_window.h"

namespace trainer::train {

void LogWindow::add(int64_t tokens, double efficiency, double seconds, double data_seconds) {
  tokens_ += tokens;
  paid_tokens_ += static_cast<double>(tokens) / efficiency;
  seconds_ += seconds;
  data_seconds_ += data_seconds;
  ++steps_;
}

void LogWindow::add(const PhaseSeconds& phases) {
  for (size_t i = 0; i < kPhases; ++i) phases_[i] += phases[i];
  has_phases_ = true;
}

std::vector<std::pair<std::string, double>> LogWindow::phase_seconds() const {
  std::vector<std::pair<std::string, double>> means;
  for (size_t i = 0; has_phases_ && i < kPhases; ++i)
    if (const auto phase = static_cast<Phase>(i); phase != Phase::kData)
      means.emplace_back(name_of(phase), phases_[i] / static_cast<double>(steps_));
  return means;
}

}  // namespace trainer::train
