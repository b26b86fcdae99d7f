#include <algorithm>

#include <fmt/format.h>

#include "engine/base/terminal_text.h"
#include "engine/report/confusion.h"

namespace trainer::report {
namespace {

constexpr size_t kWidth = 80, kMostOfName = 20;  // columns of the terminal

size_t widest(const std::vector<std::string>& texts) {
  size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, display_width(text));
  return width;
}

std::string right_aligned(const std::string& text, size_t width) {
  return std::string(width - std::min(width, display_width(text)), ' ') + text;
}

std::vector<std::string> shown(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back(truncated(one_line(name), kMostOfName));
  return all;
}

/// Numbers the names, and heads the columns with the numbers.
void number(std::vector<std::string>& rows, std::vector<std::string>& heads) {
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = fmt::format("{:>2} {}", i + 1, rows[i]);
  for (size_t j = 0; j < rows.size(); ++j) heads[j] = std::to_string(j + 1);
}

}  // namespace

std::string confusion_text(const Confusion& confusion) {
  if (confusion.labels.empty()) return "";
  std::vector<std::string> rows = shown(confusion.labels), heads = shown(confusion.answers);
  if (2 + widest(rows) + heads.size() * (widest(heads) + 2) > kWidth) number(rows, heads);
  size_t cell = widest(heads);
  for (const auto& row : confusion.counts)
    for (const int64_t count : row) cell = std::max(cell, std::to_string(count).size());
  const size_t names = widest(rows);
  std::string text = "Predictions, in columns, for the samples of each label:\n  " + std::string(names, ' ');
  for (const std::string& head : heads) text += "  " + right_aligned(head, cell);
  for (size_t i = 0; i < rows.size(); ++i) {
    text += "\n  " + fitted(rows[i], names);
    for (const int64_t count : confusion.counts[i]) text += "  " + right_aligned(std::to_string(count), cell);
  }
  return text + "\n";
}

}  // namespace trainer::report
