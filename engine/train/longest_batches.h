// Which micro-batches of a run need the most memory: known before it starts, as the order of the samples is.
#pragma once

#include <string>
#include <vector>

#include "data/samples.h"
#include "data/shares.h"
#include "engine/config/sections.h"

namespace trainer::train {

/// The lengths of a micro-batch's samples, in tokens.
struct BatchLengths {
  std::vector<int64_t> source, target;  // no targets where labels are what follows each token
  int64_t learnt = 0;                   // labels that count
};

/// Those micro-batches of any rank that have the most tokens, of sources, of targets, or together with several weights,
/// or the most pairs of tokens that attend to each other: what layers keep grows with these.
struct LongestBatches {
  std::vector<BatchLengths> batches;
  int64_t tokens_of_update = 0;  // the most a rank has in one update, over its micro-batches
  int64_t updates_seen = 0;      // fewer than all for a run of very many samples
  data::LabelKind kind = data::LabelKind::kTarget;
};
LongestBatches longest_training_batches(const config::Config& config, const data::Samples& samples, int64_t ranks);
LongestBatches longest_evaluation_batches(const config::Config& config, const data::Samples& samples, int64_t ranks);

/// The option that says how many tokens a sample may have (of its source, where it has a target too), and its value.
struct LengthOption {
  std::string name;  // "data.max_length"; "" for images
  int64_t tokens = 0;
};
LengthOption length_option(const config::DataConfig& data);

/// Where no samples are known: those of samples that are as long as the options let them be, `most_tokens` at most
/// (0: any number).
LongestBatches fullest_training_batches(const config::Config& config, int64_t most_tokens, int64_t ranks);
LongestBatches fullest_evaluation_batches(const config::Config& config, int64_t most_tokens);

}  // namespace trainer::train
