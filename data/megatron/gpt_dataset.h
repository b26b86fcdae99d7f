// The samples of one split of a corpus or a blend of corpora, in Megatron's order.
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

/// Which samples are read, and in which order.
struct GptRequest {
  Blend blend;
  Split split = Split::kTrain;
  std::optional<int64_t>
      samples;  // at least this many, over several epochs if needed; nothing: one epoch of each corpus
  int64_t seed = 0;
  bool drop_last_partial = true;
};

/// Samples by index, read from disk on demand. Safe to use from several threads.
class GptDataset {
 public:
  /// `rules.config` must outlive it. Errors: InputError for broken or too small corpora; ConfigError for an invalid
  /// blend or split.
  GptDataset(const GptRequest& request, const GptSampleRules& rules);

  int64_t size() const;

  /// Errors: InputError for a token outside the vocabulary.
  GptSample sample(int64_t k) const;

  /// Which corpus each sample is drawn from; null for a single corpus without a weight.
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
  std::optional<Draws> draws_;  // nothing: the samples of the single corpus, unblended
};

}  // namespace trainer::data
