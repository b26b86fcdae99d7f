#include "data/tokenizers/tokenizer_probe.h"

#include <algorithm>
#include <random>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace trainer::data {
namespace {

constexpr int64_t kSinglePieces = 20'000;  // a large vocabulary is sampled at intervals
constexpr int kMixedTexts = 4'000;

/// A piece as it is written in a text.
std::string written(const Tokenizer& tokenizer, int64_t id) {
  std::string text = tokenizer.piece_of(static_cast<int32_t>(id));
  constexpr std::string_view kMark = "\u2581";
  for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at)) {
    text.replace(at, kMark.size(), " ");
  }
  return text;
}

/// Pseudorandom texts of a few parts each.
class MixedTexts {
 public:
  MixedTexts(const Tokenizer& tokenizer, const std::vector<std::string>& special)
      : tokenizer_(tokenizer), special_(special) {}

  std::string next() {
    std::string text;
    for (size_t parts = 1 + below(7); parts > 0; --parts) text += part();
    return text;
  }

 private:
  std::string part() {
    static const std::vector<std::string> kOthers = {" ",      "  ",      "     ",      std::string(19, ' '),
                                                     "\n",     "\n\n",    "\t",         "\r\n",
                                                     "\u2581", "\u00a0",  "\ufb01",     "\uff21\u00bd",
                                                     "\u00e9", "e\u0301", "12",         "<",
                                                     "<0x0A>", "aaaaaa",  "\U0001f6a2", "\u4e2d"};
    if (size_t kind = below(8); kind == 0 && !special_.empty())
      return special_[below(special_.size())];
    else if (kind < 3)
      return kOthers[below(kOthers.size())];
    return written(tokenizer_, static_cast<int64_t>(below(static_cast<size_t>(tokenizer_.size()))));
  }

  size_t below(size_t end) { return random_() % end; }

  const Tokenizer& tokenizer_;
  const std::vector<std::string>& special_;
  std::mt19937 random_{1};
};

}  // namespace

std::string first_difference(const Tokenizer& one, const Tokenizer& other, const std::vector<std::string>& special,
                             bool any_order) {
  const auto difference = [&](const std::string& text) {
    const std::vector<int32_t> ids = one.encode(text), others = other.encode(text);
    if (ids == others || (any_order && std::is_permutation(ids.begin(), ids.end(), others.begin(), others.end()))) {
      return std::string();
    }
    return fmt::format("{} gives [{}], but would give [{}]", nlohmann::json(text).dump(-1, ' ', true),
                       fmt::join(ids, ", "), fmt::join(others, ", "));
  };
  const int64_t step = std::max<int64_t>(1, one.size() / kSinglePieces);
  for (int64_t id = 0; id < one.size(); id += step) {
    if (std::string found = difference(written(one, id)); !found.empty()) return found;
  }
  MixedTexts texts(one, special);
  for (int i = 0; i < kMixedTexts; ++i) {
    if (std::string found = difference(texts.next()); !found.empty()) return found;
  }
  return "";
}

}  // namespace trainer::data
