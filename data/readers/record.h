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

  /// The text of `column`; null when the record has no such column.
  const std::string* find(std::string_view column) const;

  /// "file:line", for messages.
  std::string where() const;
};

using RecordSink = std::function<void(Record&&)>;

}  // namespace trainer::data
