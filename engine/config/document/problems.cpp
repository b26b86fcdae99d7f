#include "engine/config/document/problems.h"
#include "engine/base/utf8.h"

#include <algorithm>
#include <fstream>

namespace trainer::config {
namespace {

/// At most `kWidest` bytes of `line` around `column`, which is updated to point at the same byte.
std::string window(const std::string& line, std::size_t& column) {
  constexpr std::size_t kWidest = 96, kBefore = 40;
  if (line.size() <= kWidest) return shown(line, kWidest);
  const std::size_t start = column > kBefore ? column - kBefore : 0;
  column -= start;
  return shown(line.substr(start, kWidest), kWidest);
}

}  // namespace

std::string to_string(const Problem& problem) {
  return problem.mark.source ? to_string(problem.mark) + ": " + problem.message : problem.message;
}

void Problems::add(const Mark& mark, const std::string& path, const std::string& message, const std::string& rule) {
  found_.push_back({mark, path, message, rule});
  paths_.insert(path);
}

bool Problems::about(const std::string& path) const {
  auto it = paths_.lower_bound(path);
  return it != paths_.end() && (*it == path || it->starts_with(path + "."));
}

std::vector<Problem> Problems::sorted() const {
  std::vector<std::string> sources;  // in the order of their first problem
  auto source_of = [](const Mark& mark) { return mark.source ? *mark.source : ""; };
  auto order_of = [&](const Mark& mark) {
    return std::find(sources.begin(), sources.end(), source_of(mark)) - sources.begin();
  };
  for (const Problem& problem : found_) {
    if (order_of(problem.mark) == static_cast<long>(sources.size())) sources.push_back(source_of(problem.mark));
  }
  auto position = [&](const Problem& p) { return std::tuple(order_of(p.mark), p.mark.line, p.mark.column); };
  std::vector<Problem> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Problem& a, const Problem& b) { return position(a) < position(b); });
  return sorted;
}

std::string Problems::text() const {
  constexpr std::size_t kMost = 50;
  const std::vector<Problem> all = sorted();
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!out.empty()) out += '\n';
    if (i == kMost && all.size() > kMost + 1) return out + fmt::format("… and {} more", all.size() - kMost);
    out += to_string(all[i]);
  }
  return out;
}

void Problems::throw_if_any() const {
  if (!empty()) throw ConfigProblems(*this);
}

std::string excerpt(const Mark& mark) {
  if (!mark.source || mark.line < 1) return "";
  std::ifstream in(*mark.source);
  std::string line;
  for (int i = 0; i < mark.line; ++i) {
    if (!std::getline(in, line)) return "";
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  std::replace(line.begin(), line.end(), '\t', ' ');
  auto column = std::min(static_cast<std::size_t>(std::max(mark.column, 1) - 1), line.size());
  const std::string text = window(line, column);
  // The caret is placed below a character, not a byte.
  const std::size_t characters = count_characters(std::string_view(text).substr(0, column));
  return fmt::format("{:>5} | {}\n      | {}^", mark.line, text, std::string(characters, ' '));
}

std::string shown(const std::string& text, std::size_t longest) {
  std::string out;
  for (const char c : text.substr(0, character_begin(text, longest))) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  if (text.size() > longest) out += "…";
  return out;
}

}  // namespace trainer::config
