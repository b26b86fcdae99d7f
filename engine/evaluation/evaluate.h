// Measuring a model on the validation samples.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "engine/metrics/predictions.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::evaluation {

struct Result {
  std::map<std::string, double> values;          // "eval_loss", "eval_accuracy"
  std::vector<metrics::Prediction> predictions;  // of all samples, in their order; rank 0 only
};

struct Request {
  const data::Dataset& samples;
  const data::Tokenizer& tokenizer;
  int64_t batch_size;  // per rank
  int64_t max_new_tokens;
  bool generate;                                     // decode every sample, for accuracy and predictions
  std::function<void(const std::string&)> progress;  // told what is being done
};

/// Collective. Every sample counts once, whatever the ranks and the batch size; the loss is per target token.
Result evaluate(parallel::ParallelModel& model, const Request& request);

}  // namespace trainer::evaluation
