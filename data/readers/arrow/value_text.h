// Values of Arrow arrays as text.
#pragma once

#include <cstdint>
#include <string>

#include <arrow/array.h>

#include "data/readers/bad_record.h"

namespace trainer::data {

/// Why a value has no text.
struct BadValue {
  Fault fault;
  const char* why;
};

/// A value that is bytes rather than text, such as an image.
struct NotText {};

/// How a record stores a value: see Record::is_json.
struct ValueText {
  std::string text;
  bool json = false;
};

/// Value `index` of `array`. Strings, dates and times are text; numbers, booleans, lists, structs and maps are JSON
/// (a map as an object); null is "", as JSON. Bytes are text if they are UTF-8.
/// Errors: throws BadValue for text that is not UTF-8, has a NUL character or is longer than kMaxRecordBytes; NotText
/// for other bytes.
ValueText text_of(const arrow::Array& array, int64_t index);

}  // namespace trainer::data
