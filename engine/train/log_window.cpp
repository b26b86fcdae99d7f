#include "engine/train/log_window.h"

namespace trainer::train {

void LogWindow::add(int64_t tokens, double efficiency, double seconds, double data_seconds) {
  tokens_ += tokens;
  paid_tokens_ += static_cast<double>(tokens) / efficiency;
  seconds_ += seconds;
  data_seconds_ += data_seconds;
  ++steps_;
}

}  // namespace trainer::train
