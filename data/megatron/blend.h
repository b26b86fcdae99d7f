// Drawing samples from several corpora, by Megatron's rules.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

/// Corpora and how often each is drawn, in proportion; no weights: by their sizes.
struct Blend {
  std::vector<std::string> prefixes;
  std::vector<double> weights;
};

/// Reads a list as Megatron's --data-path: weights and paths in turn ("30 a 70 b"), or paths alone. An odd number of
/// words, or words in the weights' places that are no numbers, are paths alone.
/// Errors: ConfigError when only some of the weights are numbers, or one isn't above 0.
Blend parse_blend(const std::vector<std::string>& words);

/// Draw k is sample `sample[k]` of corpus `corpus[k]`.
struct Draws {
  std::vector<int16_t> corpus;
  std::vector<int64_t> sample;
};

/// `count` draws: each from the corpus that is furthest behind its share. `weights` have the sum 1.
Draws draw_by_weight(std::span<const double> weights, int64_t count);

/// Draws every sample of corpora of these sizes once, evenly mixed.
Draws draw_all(std::span<const int64_t> sizes);

}  // namespace trainer::data
