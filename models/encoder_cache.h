#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "models/nn/rows.h"

namespace trainer::models {

// Note [Encoder cache]
// An encoder that isn't trained, without dropout, computes the same of a sample in every epoch. So its output is kept,
// found by the sample's tokens. Each sample is encoded alone: the bits of its rows then depend neither on the samples
// beside it, nor on when a run was resumed, nor on the rank.

/// The outputs of an encoder, up to a number of bytes: those of the samples that came first.
class EncoderCache {
 public:
  explicit EncoderCache(int64_t bytes) : bytes_(bytes) {}

  /// Of rows of ids.
  using Encode = std::function<nn::Rows(const nn::Rows& ids)>;
  /// What `encode` gives for `ids` [T] int64 on the CPU, whose samples are whole: [T, D].
  nn::Rows rows_of(const nn::Rows& ids, const Encode& encode);

  /// The most that it may hold.
  int64_t bytes() const { return bytes_; }

 private:
  /// Of one sample.
  at::Tensor encoded(const at::Tensor& ids, int64_t sample_index, const Encode& encode);

  int64_t bytes_, held_ = 0;
  std::unordered_map<std::string, at::Tensor> outputs_;  // by the bytes of the ids
};

}  // namespace trainer::models
