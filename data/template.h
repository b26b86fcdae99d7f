// How a record becomes the text that a model reads or should write.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/readers/record.h"

namespace trainer::data {

/// A column's bare name, or a text with columns in braces: "{title}: {body}". Two braces stand for one.
class Template {
 public:
  /// `option` names the setting, for messages ("data.source"). Errors: ConfigError for a brace without its partner.
  Template(std::string_view text, std::string option);

  /// Errors: InputError with file and line for a column that the record lacks, naming those it has.
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
