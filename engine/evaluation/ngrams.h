#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::evaluation {

/// The number of runs of `n` words.
int64_t ngram_count(const std::vector<std::string>& words, size_t n);

/// The number of these runs that both texts have; a repeated one counts as often as it is in both.
int64_t common_ngrams(const std::vector<std::string>& a, const std::vector<std::string>& b, size_t n);

}  // namespace trainer::evaluation
