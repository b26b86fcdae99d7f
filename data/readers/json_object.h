// Cuts a JSON object into a record's fields without building a tree: the numbers and nested values of a record stay as
// they are written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "data/readers/bad_record.h"
#include "data/readers/record.h"

namespace trainer::data {

/// Why a text is no JSON object, and at which byte.
struct JsonFault {
  Fault fault;
  size_t offset;
  std::string why;
};

/// Reads the object `text` (UTF-8) into the fields of `record`: strings as their text, null as nothing, other values as
/// JSON without blanks. Errors: throws JsonFault, also for keys that stand twice, for nesting deeper than 64 levels and
/// for the character NUL.
void read_object(std::string_view text, Record& record);

/// Checks that `text` is one JSON value. Errors: throws JsonFault.
void check_json(std::string_view text);

/// How many bytes at the front of `text` stand for themselves in a string: no quote, backslash or control character.
size_t plain_length(std::string_view text);

/// The text of the JSON string `text`. Errors: throws JsonFault.
std::string read_string(std::string_view text);

}  // namespace trainer::data
