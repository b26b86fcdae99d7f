// The records that a run reports.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainer::metrics {

/// One logged update, merged over all ranks.
struct StepRecord {
  int64_t step = 0;    // updates done, this one included
  double epoch = 0.0;  // passes over the data, with fraction
  double loss = 0.0;
  double grad_norm = 0.0;  // before clipping
  double learning_rate = 0.0;
  int64_t tokens = 0;   // so far in the run, without padding
  int64_t samples = 0;  // so far in the run
  double tokens_per_second = 0.0;
  double step_seconds = 0.0;
  double data_wait_seconds = 0.0;
  double efficiency = 1.0;      // tokens without padding, as a fraction of what the ranks have time for
  int64_t memory_bytes = 0;     // resident, of the largest rank
  int64_t tensor_bytes = 0;     // peak of all tensors, of the largest rank
  std::string order_digest;     // digest of the ids of the samples trained on
  double loss_scale = 0;        // of the next update, in fp16; 0: losses are not scaled
  int64_t skipped_updates = 0;  // so far in the run, because gradients overflowed fp16
  /// Rank 0's mean time in each phase of an update, in their order; waiting for data has a field above. Empty: not
  /// timed.
  std::vector<std::pair<std::string, double>> phase_seconds{};
  std::vector<int64_t> rank_memory_bytes{}, rank_tensor_bytes{};  // memory_bytes and tensor_bytes of each rank
  double peak_share = 0;                    // model FLOP/s as a part of the machine's matrix products; 0: not known
  std::map<std::string, double> rewards{};  // of pairs, by TRL's names; means since the last record
};

/// Of more ranks than this, records have the smallest and the median memory instead of each rank's.
constexpr size_t kMostRanksListed = 16;

/// An update that diverged and was not applied.
struct DivergenceRecord {
  int64_t step = 0;  // the update it would have been
  double loss = 0.0, grad_norm = 0.0;
  int64_t first_sample = 0, end_sample = 0;  // in the run's sample order
  std::string order_digest;
  int64_t back_to = -1;  // the step that weights and optimizer were rolled back to; -1: they were left unchanged
};

/// A rank has become slow or slower, or is as fast as the others again.
struct StragglerRecord {
  int64_t step = 0;
  int rank = 0, machine = 0;
  bool one_machine = true;  // the run has only one
  double factor = 0;        // its working time between collectives, divided by the others' median
  bool over = false;
};

/// The end of a save.
struct SaveRecord {
  int64_t step = 0;  // of the checkpoint
  bool failed = false;
};

/// The start of an attempt, and facts that hold for all of it.
struct StartRecord {
  int64_t step = 0;      // of the loaded checkpoint; 0: from scratch
  int64_t reached = -1;  // the last update that an earlier attempt has recorded; -1: there is none
  int64_t ranks = 1, samples = 0, validation_samples = 0;
  int64_t parameters = 0, trained = 0;  // elements
  struct Unit {
    std::string name, class_name;
    int64_t parameters = 0;
  };
  std::vector<Unit> units{};  // FSDP's
  struct Bar {
    int64_t from = 0, to = 0;  // tokens, inclusive
    int64_t samples = 0;
  };
  std::map<std::string, std::vector<Bar>> lengths{};  // "source", "target": of the training samples
};

/// One evaluation, merged over all ranks.
struct EvaluationRecord {
  int64_t step = 0;
  double epoch = 0.0;
  std::map<std::string, double> values;  // "eval_loss", "eval_accuracy", …
};

/// How many of a tensor's elements lie between each two of histogram_limits(); elements beyond them are in the outermost
/// buckets. Elements that aren't finite are left out.
struct Histogram {
  std::string tag;  // TensorBoard's: "gradients/<parameter>", "weights/<parameter>"
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<double> buckets;
};

/// Histograms at an update, over all ranks.
struct HistogramRecord {
  int64_t step = 0;
  std::vector<Histogram> histograms;
};

}  // namespace trainer::metrics
