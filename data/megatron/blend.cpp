#include "data/megatron/blend.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

std::string stripped(const std::string& word) {
  constexpr const char* kSpace = " \t\r\n\f\v";
  size_t begin = word.find_first_not_of(kSpace);
  return begin == std::string::npos ? "" : word.substr(begin, word.find_last_not_of(kSpace) - begin + 1);
}

std::optional<double> number(const std::string& word) {
  const std::string text = stripped(word);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Makes the draws one by one and counts them.
class Drawer {
 public:
  explicit Drawer(size_t corpora) : counts_(corpora, 0) {}

  int64_t count(size_t corpus) const { return counts_[corpus]; }

  /// The first corpus in `open` that is furthest behind its share.
  size_t furthest_behind(std::span<const double> weights, const std::vector<size_t>& open) const {
    const double step = std::max(static_cast<double>(draws.corpus.size()), 1.0);
    size_t chosen = open.front();
    double most = std::numeric_limits<double>::lowest();
    for (size_t corpus : open) {
      const double behind = weights[corpus] * step - static_cast<double>(counts_[corpus]);
      if (behind > most) {
        most = behind;
        chosen = corpus;
      }
    }
    return chosen;
  }

  void draw(size_t corpus) {
    draws.corpus.push_back(static_cast<int16_t>(corpus));
    draws.sample.push_back(counts_[corpus]++);
  }

  Draws draws;

 private:
  std::vector<int64_t> counts_;
};

void reserve(Draws& draws, int64_t count) {
  draws.corpus.reserve(static_cast<size_t>(count));
  draws.sample.reserve(static_cast<size_t>(count));
}

std::vector<size_t> numbers_below(size_t count) {
  std::vector<size_t> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

}  // namespace

Blend parse_blend(const std::vector<std::string>& words) {
  Blend blend;
  const bool pairs = words.size() % 2 == 0;
  for (size_t i = 0; pairs && i < words.size(); i += 2) {
    if (auto weight = number(words[i])) blend.weights.push_back(*weight);
  }
  const bool weighted = !blend.weights.empty();
  if (weighted && blend.weights.size() != words.size() / 2) {
    throw ConfigError(
        "data.train.path: {} of {} weights are numbers: \"{}\".\nGive alternating weights and paths, or only paths.",
        blend.weights.size(), words.size() / 2, fmt::join(words, " "));
  }
  for (size_t i = weighted ? 1 : 0; i < words.size(); i += weighted ? 2 : 1) {
    blend.prefixes.push_back(stripped(words[i]));
  }
  for (double weight : blend.weights) {
    if (!(weight > 0 && std::isfinite(weight))) {
      throw ConfigError("data.train.path: the weight is {}; weights must be greater than 0.", weight);
    }
  }
  return blend;
}

Draws draw_by_weight(std::span<const double> weights, int64_t count) {
  Drawer drawer(weights.size());
  reserve(drawer.draws, count);
  const std::vector<size_t> all = numbers_below(weights.size());
  for (int64_t k = 0; k < count; ++k) drawer.draw(drawer.furthest_behind(weights, all));
  return std::move(drawer.draws);
}

Draws draw_all(std::span<const int64_t> sizes) {
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  std::vector<double> weights;
  for (int64_t size : sizes) weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  Drawer drawer(sizes.size());
  reserve(drawer.draws, total);
  std::vector<size_t> open = numbers_below(sizes.size());
  std::erase_if(open, [&](size_t corpus) { return sizes[corpus] == 0; });
  while (!open.empty()) {
    const size_t corpus = drawer.furthest_behind(weights, open);
    drawer.draw(corpus);
    if (drawer.count(corpus) == sizes[corpus]) std::erase(open, corpus);
  }
  return std::move(drawer.draws);
}

}  // namespace trainer::data
