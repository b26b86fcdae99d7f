// Measuring a model on the validation samples.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/samples.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/metrics/predictions.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::evaluation {

struct Result {
  std::map<std::string, double> values;          // "eval_loss", and "eval_accuracy" where it was asked for
  std::vector<metrics::Prediction> predictions;  // of all samples, in their order; rank 0 only
};

struct Request {
  const data::Samples& samples;
  const data::Tokenizer* tokenizer;        // null for images
  const std::vector<std::string>& labels;  // of the classes of a classifier
  int64_t batch_size;                      // per rank
  int64_t max_new_tokens;
  double label_smoothing;  // in the loss, as in training: what transformers' Trainer reports
  parallel::Sampling sampling;
  bool generate;                                     // text: write a reply to every sample, for predictions
  bool score;                                        // and count those that are their labels, for accuracy
  std::function<void(const std::string&)> progress;  // told what is being done
};

/// Collective. Every sample counts once, whatever the ranks and the batch size; the loss is per label that counts. A
/// classifier is always measured for accuracy, from the same forward pass as the loss.
Result evaluate(parallel::ParallelModel& model, const Request& request);

}  // namespace trainer::evaluation
