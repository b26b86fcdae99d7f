// Blends samples of several corpora by Megatron's rules.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

/// Corpora and their relative weights; without weights they are drawn by size.
struct Blend {
  std::vector<std::string> prefixes;
  std::vector<double> weights;
};

/// Parses a list like Megatron's --data-path: alternating weights and paths ("30 a 70 b"), or only paths. An odd number
/// of words, or one without numbers in the weights' places, is a list of paths.
/// Errors: ConfigError when only some of the weights are numbers, or one isn't greater than 0.
Blend parse_blend(const std::vector<std::string>& words);

/// Draw k is sample `sample[k]` of corpus `corpus[k]`.
struct Draws {
  std::vector<int16_t> corpus;
  std::vector<int64_t> sample;
};

/// `count` draws: each from the corpus that is furthest behind its weight. `weights` sum to 1.
Draws draw_by_weight(std::span<const double> weights, int64_t count);

/// Draws every sample of corpora of these sizes once, evenly interleaved.
Draws draw_all(std::span<const int64_t> sizes);

}  // namespace trainer::data
