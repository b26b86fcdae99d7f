// Continuous batching: which samples of a batch are decoded at a time.
#pragma once

#include <functional>
#include <vector>

#include "models/model.h"

namespace trainer::models {

/// The sources of samples [first, end) of a batch.
Batch sources_of(const Batch& batch, int64_t first, int64_t end);

/// Decodes the samples of a batch in slots of a cache: a sample that has ended makes room for the next one, whose first
/// rows join the step of the others. Nothing is computed for samples that have ended.
class Decoding {
 public:
  /// `at_once`: the number of slots; 0: as many as samples. `room`: the most tokens that a sample generates.
  Decoding(const Batch& batch, const Model& model, int64_t at_once, int64_t room);
  /// Of the passes of begin() and of the model's decode().
  nn::DecodeCache& cache() { return cache_; }

  /// Whether samples wait for which enough slots are free: one, or a quarter where an encoder runs for them.
  bool has_next() const {
    const int64_t free = cache_.slots - std::ssize(active_);
    return next_ < batch_.source->samples() && free >= (is_active() ? least_free_ : 1);
  }
  bool is_active() const { return !active_.empty(); }
  /// Gives free slots to samples that wait. Where the model has an encoder, a collective of all ranks, with samples or
  /// without.
  void begin(Model& model, const nn::Pass& pass);
  /// The tokens of the next step, and the samples that its rows of logits are of: their indices in the batch.
  const at::Tensor& tokens() const { return tokens_; }
  const nn::Layout& step() const { return *cache_.step; }
  std::vector<int64_t> samples() const;
  /// After the step: a sample goes on with the token that `next` gives for it, or ends (negative).
  void advance(const std::function<int64_t(size_t row)>& next);

 private:
  struct Active {
    int64_t sample, slot;
    int64_t length = 0;           // tokens in the cache
    nn::Span source{};            // its rows in the cache's keys of sources
    std::vector<int64_t> tokens;  // of its next step
  };
  /// The rows of the next step.
  void lay_out();

  Batch batch_;
  int64_t virtual_tokens_, least_free_ = 1;
  nn::DecodeCache cache_;
  int64_t next_ = 0;            // the first sample that waits
  int64_t source_rows_ = 0;     // of the cache's keys of sources
  std::vector<Active> active_;  // in the order of their slots
  at::Tensor tokens_;
};

}  // namespace trainer::models
