// Maps samples to tokens of a corpus: exactly the indices of Megatron's GPT dataset.
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

/// The inputs that determine the samples of one corpus.
struct GptIndexRequest {
  SequenceRange sequences;
  int64_t sequence_length = 0;       // tokens of a sample; one more is read for the last label
  std::optional<int64_t> samples{};  // as many epochs as needed for this many; nothing: one epoch
  int64_t seed = 0;
  bool drop_last_partial = true;  // false: the last sample may be shorter
};

/// The sequence order, concatenated epoch by epoch, the position in it where each sample begins, and the sample order.
/// Memory: 4 bytes per sequence and epoch, 12 bytes per sample.
class GptIndex {
 public:
  /// The first token of a sample: an entry of sequence_order() and a token of that sequence.
  struct Start {
    uint32_t slot = 0;
    uint32_t offset = 0;
    bool operator==(const Start&) const = default;
  };

  /// Errors: ConfigError for a seed outside [0, 2^32), or more than 2^32 sequences or samples; InputError when samples
  /// are requested from a range without tokens.
  GptIndex(const SequenceIndex& corpus, const GptIndexRequest& request);

  int64_t size() const { return static_cast<int64_t>(sample_order_.size()); }

  /// The pieces of sample k, in order: sequence_length + 1 tokens, fewer only in a partial last sample. The last token
  /// of a sample is the first of the next. `corpus` must be the corpus of the constructor.
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
