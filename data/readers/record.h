// What every reader gives: one record after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::data {

/// One record of a file: its columns' texts and where it begins.
struct Record {
  std::vector<std::pair<std::string, std::string>> fields;  // column, text (UTF-8)
  std::string file;
  int64_t line = 0;
  size_t entry = 0;          // which `path` of the source it comes from
  std::vector<bool> json{};  // for each field that isn't behind the end: it was JSON, but no string; see is_json

  /// The text of `column`; null when the record has no such column.
  const std::string* find(std::string_view column) const;

  /// True when `column` held a JSON value other than a string: its text is that value as JSON, null being "".
  bool is_json(std::string_view column) const;

  /// "file:line", for messages.
  std::string where() const;

  /// Forgets the fields.
  void clear();
};

using RecordSink = std::function<void(Record&&)>;

}  // namespace trainer::data
