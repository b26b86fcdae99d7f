// Parses a JSON object into a record's fields without building a tree: numbers and nested values keep their original
// text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "data/readers/bad_record.h"
#include "data/readers/record.h"

namespace trainer::data {

/// Why a text isn't a JSON object, and at which byte.
struct JsonFault {
  Fault fault;
  size_t offset;
  std::string why;
};

/// Reads the object `text` (UTF-8) into the fields of `record`: strings as their value, null as "", other values as
/// JSON without blanks. Errors: throws JsonFault, also for duplicate keys, nesting deeper than 64 levels and NUL
/// characters.
void read_object(std::string_view text, Record& record);

/// Checks that `text` is one JSON value. Errors: throws JsonFault.
void check_json(std::string_view text);

/// The length of the longest prefix of `text` without a quote, backslash or control character.
size_t plain_length(std::string_view text);

/// The value of the JSON string `text`. Errors: throws JsonFault.
std::string read_string(std::string_view text);

}  // namespace trainer::data
