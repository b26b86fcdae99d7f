// Templates that turn a record into source or target text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/readers/record.h"

namespace trainer::data {

/// A column name, or a text with columns in braces: "{title}: {body}". A double brace is an escaped brace.
class Template {
 public:
  /// `option` is the option's name for messages ("data.source"). Errors: ConfigError for an unmatched brace.
  Template(std::string_view text, std::string option);

  /// Errors: InputError with file and line for a missing column, listing the record's columns.
  std::string render(const Record& record) const;

 private:
  struct Part {
    std::string text;
    bool is_column;
  };

  void parse(std::string_view text);
  const std::string& field(const Record& record, const std::string& column) const;

  std::string option_;
  std::vector<Part> parts_;
};

}  // namespace trainer::data
