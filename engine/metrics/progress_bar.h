// The lines that show a run's progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "engine/metrics/records.h"

namespace trainer::metrics {

struct ProgressState {
  int64_t step = 0;
  int64_t total_steps = 0;
  std::optional<StepRecord> last;  // the newest logged update
  double seconds_left = -1.0;      // below 0: not known yet
  std::string activity;            // an activity other than updates; "" for none
};

/// One line of at most `width` columns: a bar and, as far as there is room, loss, learning rate, tokens/s and time
/// left.
std::string progress_bar(const ProgressState& state, size_t width);

/// The same facts as a log line, with fields aligned from line to line. Without a line break.
std::string progress_line(const ProgressState& state);

/// "step 100/1200  eval_accuracy 0.6712  eval_loss 1.234". Without a line break.
/// `columns`: where the line is broken, between two values.
std::string evaluation_line(const EvaluationRecord& record, int64_t total_steps,
                            size_t columns = std::numeric_limits<size_t>::max());

}  // namespace trainer::metrics
