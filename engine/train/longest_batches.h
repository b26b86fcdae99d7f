// Which micro-batches of a run need the most memory: known before it starts, as the sample order is.
#pragma once

#include <string>
#include <vector>

#include "data/sampler/shares.h"
#include "data/samples/samples.h"
#include "engine/config/sections.h"

namespace trainer::train {

/// The lengths of a micro-batch's samples, in tokens.
struct BatchLengths {
  std::vector<int64_t> source, target;  // no targets when labels are the next tokens
  int64_t learned = 0;                  // unmasked labels
};

/// The micro-batches of any rank with the most source tokens, target tokens, weighted sums of both, or pairs of tokens
/// that attend to each other: activations grow with these.
struct LongestBatches {
  std::vector<BatchLengths> batches;
  int64_t tokens_of_update = 0;  // the most a rank has in one update, over its micro-batches
  int64_t updates_seen = 0;      // not all of them when the run has very many samples
  data::LabelKind kind = data::LabelKind::kTarget;
};
LongestBatches longest_training_batches(const config::Config& config, const data::Samples& samples, int64_t ranks);
LongestBatches longest_evaluation_batches(const config::Config& config, const data::Samples& samples, int64_t ranks);

/// The option that limits a sample's tokens (those of its source, if it also has a target), and its value.
struct LengthOption {
  std::string name;  // "data.max_length"; "" for images
  int64_t tokens = 0;
};
LengthOption length_option(const config::DataConfig& data);

/// The same when no samples are known, for samples of the maximum length that the options allow, at most `most_tokens`
/// (0: unlimited).
LongestBatches fullest_training_batches(const config::Config& config, int64_t most_tokens, int64_t ranks);
LongestBatches fullest_evaluation_batches(const config::Config& config, int64_t most_tokens);

}  // namespace trainer::train
