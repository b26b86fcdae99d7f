// The records that every reader produces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::data {

/// One record of a file: the text of each column, and where it begins.
struct Record {
  std::vector<std::pair<std::string, std::string>> fields;  // column, text (UTF-8)
  std::string file;
  int64_t line = 0;
  size_t entry = 0;          // the index of its entry in the source's `path`
  std::vector<bool> json{};  // per field, may be shorter: a JSON value that isn't a string; see is_json

  /// The text of `column`; null when the record has no such column.
  const std::string* find(std::string_view column) const;

  /// True when `column` is a JSON value other than a string: its text is that value as JSON, or "" for null.
  bool is_json(std::string_view column) const;

  /// "file:line", for messages; "the prompt" if it is of no file.
  std::string where() const;

  /// Forgets the fields.
  void clear();
};

using RecordSink = std::function<void(Record&&)>;

}  // namespace trainer::data
