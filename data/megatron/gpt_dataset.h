// The samples of one split, from one corpus or a blend of several, in Megatron's order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/megatron/blend.h"
#include "data/megatron/gpt_index.h"
#include "data/megatron/gpt_sample.h"
#include "data/megatron/indexed_file.h"
#include "data/megatron/split.h"

namespace trainer::data {

/// What is read and in which order.
struct GptRequest {
  Blend blend;
  Split split = Split::kTrain;
  std::optional<int64_t>
      samples;  // at least so many, if need be over several epochs; nothing: one epoch of each corpus
  int64_t seed = 0;
  bool drop_last_partial = true;
};

/// Samples by number, read from disk when asked for. Safe to use from several threads.
class GptDataset {
 public:
  /// `rules.config` must outlive it. Errors: InputError for broken or too small corpora; ConfigError for a blend or
  /// split that can't be.
  GptDataset(const GptRequest& request, const GptSampleRules& rules);

  int64_t size() const;

  /// Errors: InputError for a token that is no id of the vocabulary.
  GptSample sample(int64_t k) const;

  /// Which corpus each sample is drawn from; null when there is one, without a weight.
  const Draws* draws() const { return draws_ ? &*draws_ : nullptr; }

 private:
  struct Corpus {
    std::unique_ptr<IndexedFile> file;
    GptIndex index;
  };

  void open(const std::string& prefix, std::optional<int64_t> samples, const GptRequest& request);
  void blend_by_weight(const GptRequest& request);
  void blend_by_size(const GptRequest& request);
  void check_draws() const;

  GptSampleRules rules_;
  std::vector<Corpus> corpora_;
  std::optional<Draws> draws_;  // nothing: the samples of the one corpus as they are
};

}  // namespace trainer::data
