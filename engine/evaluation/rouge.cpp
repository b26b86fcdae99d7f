#include "engine/evaluation/rouge.h"

#include <algorithm>
#include <cstdint>

#include "engine/evaluation/ngrams.h"

namespace trainer::evaluation {
namespace {

using Words = std::vector<std::string>;

/// The runs of ASCII letters and digits, in lower case: any other character separates words.
Words words_of(const std::string& text) {
  Words words(1);
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      words.back() += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

double f_measure(double common, double predicted, double expected) {
  return common == 0 ? 0 : 2 * common / (predicted + expected);
}

double of_ngrams(const Words& prediction, const Words& label, size_t n) {
  return f_measure(static_cast<double>(common_ngrams(prediction, label, n)),
                   static_cast<double>(ngram_count(prediction, n)), static_cast<double>(ngram_count(label, n)));
}

double of_common_subsequence(const Words& prediction, const Words& label) {
  std::vector<int64_t> before(label.size() + 1), now(label.size() + 1);
  for (const std::string& word : prediction) {
    for (size_t i = 0; i < label.size(); ++i)
      now[i + 1] = word == label[i] ? before[i] + 1 : std::max(now[i], before[i + 1]);
    std::swap(before, now);
  }
  return f_measure(static_cast<double>(before.back()), static_cast<double>(prediction.size()),
                   static_cast<double>(label.size()));
}

}  // namespace

std::map<std::string, double> rouge_scores(const std::vector<Prediction>& predictions) {
  double one = 0, two = 0, longest = 0;
  for (const Prediction& sample : predictions) {
    const Words prediction = words_of(sample.prediction), label = words_of(sample.label);
    one += of_ngrams(prediction, label, 1);
    two += of_ngrams(prediction, label, 2);
    longest += of_common_subsequence(prediction, label);
  }
  const auto count = static_cast<double>(std::max<size_t>(1, predictions.size()));
  return {{"rouge1", one / count}, {"rouge2", two / count}, {"rougeL", longest / count}};
}

}  // namespace trainer::evaluation
