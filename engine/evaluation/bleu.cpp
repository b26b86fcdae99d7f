#include "engine/evaluation/bleu.h"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/evaluation/ngrams.h"

namespace trainer::evaluation {
namespace {

constexpr size_t kMaxOrder = 4;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Punctuation that is always a token: ASCII without letters, digits, space, and ' , - .
bool stands_alone(char c) {
  return c > ' ' && c < 0x7F && !is_digit(c) && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') && c != '\'' &&
         c != ',' && c != '-' && c != '.';
}

/// Like a regular expression's substitution of two adjacent characters: matches don't overlap, and the scan goes on
/// behind a match.
template <class Matches>
std::string spaced(const std::string& text, const Matches& matches, const char* before, const char* between,
                   const char* after) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      out = out + before + text[i] + between + text[i + 1] + after;
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> tokens_13a(const std::string& text) {
  std::string line = text;
  for (const auto& [from, to] : {std::pair{"<skipped>", ""}, std::pair{"-\n", ""}, std::pair{"\n", " "}})
    replace_all(line, from, to);
  for (const auto& [from, to] :
       {std::pair{"&quot;", "\""}, std::pair{"&amp;", "&"}, std::pair{"&lt;", "<"}, std::pair{"&gt;", ">"}})
    replace_all(line, from, to);
  std::string apart = " ";
  for (const char c : line) stands_alone(c) ? (((apart += ' ') += c) += ' ') : (apart += c);
  apart += ' ';
  const auto is_mark = [](char c) { return c == '.' || c == ','; };
  apart = spaced(
      apart, [&](char a, char b) { return !is_digit(a) && is_mark(b); }, "", " ", " ");
  apart = spaced(
      apart, [&](char a, char b) { return is_mark(a) && !is_digit(b); }, " ", " ", "");
  apart = spaced(
      apart, [&](char a, char b) { return is_digit(a) && b == '-'; }, "", " ", " ");
  std::vector<std::string> tokens(1);
  for (const char c : apart) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    if (!space)
      tokens.back() += c;
    else if (!tokens.back().empty())
      tokens.emplace_back();
  }
  if (tokens.back().empty()) tokens.pop_back();
  return tokens;
}

}  // namespace

double bleu_score(const std::vector<Prediction>& predictions) {
  std::array<double, kMaxOrder> correct{}, total{};
  double predicted = 0, expected = 0;
  for (const Prediction& one : predictions) {
    const auto prediction = tokens_13a(one.prediction), label = tokens_13a(one.label);
    predicted += static_cast<double>(prediction.size());
    expected += static_cast<double>(label.size());
    for (size_t n = 1; n <= kMaxOrder; ++n) {
      total[n - 1] += static_cast<double>(ngram_count(prediction, n));
      correct[n - 1] += static_cast<double>(common_ngrams(prediction, label, n));
    }
  }
  if (correct[0] == 0) return 0;
  double smoothing = 1, logs = 0;
  for (size_t n = 0; n < kMaxOrder; ++n) {
    if (total[n] == 0) return 0;
    if (correct[n] == 0) smoothing *= 2;
    logs += std::log(100 * (correct[n] == 0 ? 1 / smoothing : correct[n]) / total[n]);
  }
  const double brevity = predicted < expected ? std::exp(1 - expected / predicted) : 1;
  return brevity * std::exp(logs / kMaxOrder);
}

}  // namespace trainer::evaluation
