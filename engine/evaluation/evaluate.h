// Evaluates a model on the validation samples.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/evaluation/beam_search.h"
#include "engine/evaluation/predictions.h"
#include "engine/evaluation/sampling.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::evaluation {

struct Result {
  std::map<std::string, double> values;  // "eval_loss", and the requested metrics
  std::vector<Prediction> predictions;   // of all samples, in their order; rank 0 only
};

struct Request {
  const data::Samples& samples;
  const data::Tokenizer* tokenizer;        // null for images
  const std::vector<std::string>& labels;  // class names of a classifier
  int64_t batch_size;                      // per rank
  int64_t max_new_tokens;
  double label_smoothing;  // in the loss, as in training: what transformers' Trainer reports
  Sampling sampling;
  Beams beams;
  bool generate;                                     // text: generate a reply to every sample, for predictions
  std::vector<std::string> metrics;                  // names of engine/base/metrics.h
  std::function<void(const std::string&)> progress;  // called with the current activity
  nn::PreferenceOptions preference{};                // of pairs: their loss
};

/// Collective. Every sample counts once for any number of ranks and batch size; the loss is the mean over unmasked
/// labels. A classifier's accuracy is always measured, from the same forward pass as the loss. Metrics that compare
/// predictions need them: a classifier, or `generate`. Of pairs, the loss is the mean over them, and their rewards are
/// measured.
Result evaluate(parallel::ParallelModel& model, const Request& request);

}  // namespace trainer::evaluation
