// What a run reports about itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trainer::metrics {

/// One logged update, merged over all ranks.
struct StepRecord {
  int64_t step = 0;    // updates done, this one included
  double epoch = 0.0;  // passes over the data done, with fraction
  double loss = 0.0;
  double grad_norm = 0.0;  // before clipping
  double learning_rate = 0.0;
  int64_t tokens = 0;  // real ones, no padding
  double tokens_per_second = 0.0;
  double step_seconds = 0.0;
  double data_wait_seconds = 0.0;
  double efficiency = 1.0;      // real tokens for each that the ranks have time for
  int64_t memory_bytes = 0;     // resident, of the largest rank
  int64_t tensor_bytes = 0;     // peak of all tensors, of the largest rank
  std::string order_digest;     // of the ids of the samples seen
  double loss_scale = 0;        // of the next update, in fp16; 0: losses are not scaled
  int64_t skipped_updates = 0;  // of the run so far, as their gradients overflowed fp16
};

/// An update that diverged, and was not made.
struct DivergenceRecord {
  int64_t step = 0;  // the update it would have been
  double loss = 0.0, grad_norm = 0.0;
  int64_t first_sample = 0, end_sample = 0;  // of the run's order
  std::string order_digest;
  int64_t back_to = -1;  // the step that weights and optimiser returned to; -1: they stayed as they were
};

/// A rank has become slow, slower, or is as fast as the others again.
struct StragglerRecord {
  int64_t step = 0;
  int rank = 0, machine = 0;
  bool one_machine = true;  // there is no other
  double factor = 0;        // how long it works between collectives, by the median of the others
  bool over = false;
};

/// One evaluation, merged over all ranks.
struct EvaluationRecord {
  int64_t step = 0;
  double epoch = 0.0;
  std::map<std::string, double> values;  // "eval_loss", "eval_accuracy", …
};

}  // namespace trainer::metrics
