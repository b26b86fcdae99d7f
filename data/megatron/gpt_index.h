// Which tokens of a corpus make up which sample: the indices of Megatron's GPT dataset, exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/megatron/sequence_index.h"
#include "data/megatron/split.h"

namespace trainer::data {

/// Tokens [offset, offset + length) of a sequence.
struct SamplePiece {
  int64_t sequence = 0;
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const SamplePiece&) const = default;
};

/// What the samples of one corpus depend on.
struct GptIndexRequest {
  SequenceRange sequences;
  int64_t sequence_length = 0;       // tokens of a sample, one more is read for the last label
  std::optional<int64_t> samples{};  // so many epochs that there are as many; nothing: one epoch
  int64_t seed = 0;
  bool drop_last_partial = true;  // false: a last, shorter sample
};

/// The order of sequences, laid one behind the other epoch by epoch, the place in it where each sample begins, and the
/// order of the samples. Four bytes a sequence and epoch, twelve a sample.
class GptIndex {
 public:
  /// The first token of a sample: an entry of sequence_order() and a token of that sequence.
  struct Start {
    uint32_t slot = 0;
    uint32_t offset = 0;
    bool operator==(const Start&) const = default;
  };

  /// Errors: ConfigError for a seed that isn't in [0, 2^32), or more than 2^32 sequences or samples; InputError when
  /// samples are asked of a range without tokens.
  GptIndex(const SequenceIndex& corpus, const GptIndexRequest& request);

  int64_t size() const { return static_cast<int64_t>(sample_order_.size()); }

  /// The pieces of sample k, in their order: sequence_length + 1 tokens, fewer only in a partial last sample. The last
  /// token of a sample is the first of the next. `corpus` is the one this was made of.
  std::vector<SamplePiece> pieces(const SequenceIndex& corpus, int64_t k) const;

  const std::vector<uint32_t>& sequence_order() const { return sequence_order_; }  ///< Megatron's document_index
  const std::vector<Start>& starts() const { return starts_; }                     ///< Megatron's sample_index
  const std::vector<uint32_t>& sample_order() const { return sample_order_; }      ///< Megatron's shuffle_index

 private:
  std::vector<uint32_t> sequence_order_;
  std::vector<Start> starts_;  // one more than samples
  std::vector<uint32_t> sample_order_;
};

}  // namespace trainer::data
