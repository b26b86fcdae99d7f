#include "engine/evaluation/ngrams.h"

#include <map>

namespace trainer::evaluation {
namespace {

std::vector<std::string> ngram_at(const std::vector<std::string>& words, int64_t i, size_t n) {
  return {words.begin() + i, words.begin() + i + static_cast<int64_t>(n)};
}

}  // namespace

int64_t ngram_count(const std::vector<std::string>& words, size_t n) {
  return words.size() < n ? 0 : static_cast<int64_t>(words.size() - n + 1);
}

int64_t common_ngrams(const std::vector<std::string>& a, const std::vector<std::string>& b, size_t n) {
  std::map<std::vector<std::string>, int64_t> left;
  for (int64_t i = 0; i < ngram_count(b, n); ++i) ++left[ngram_at(b, i, n)];
  int64_t common = 0;
  for (int64_t i = 0; i < ngram_count(a, n); ++i)
    if (const auto found = left.find(ngram_at(a, i, n)); found != left.end() && found->second-- > 0) ++common;
  return common;
}

}  // namespace trainer::evaluation
