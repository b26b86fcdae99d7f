#include "data/readers/arrow/value_text.h"

#include <cmath>

#include <arrow/array/array_dict.h>
#include <arrow/array/array_nested.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/util/float16.h>
#include <arrow/util/utf8.h>
#include <fmt/format.h>

#include "data/readers/text_input.h"

namespace trainer::data {
namespace {

using arrow::Array;
using arrow::Type;

/// Appends one value after the other as JSON. The nesting is that of the schema, whose depth Arrow's readers limit.
class JsonText {
 public:
  explicit JsonText(std::string& text) : text_(text) {}

  void value(const Array& array, int64_t i);
  void quoted(std::string_view text);

 private:
  template <class List>
  void list(const List& array, int64_t i) {
    text_ += '[';
    const int64_t begin = array.value_offset(i), end = begin + array.value_length(i);
    for (int64_t at = begin; at < end; ++at) {
      if (at > begin) text_ += ',';
      value(*array.values(), at);
    }
    text_ += ']';
  }

  void object(const arrow::StructArray& array, int64_t i) {
    text_ += '{';
    for (int field = 0; field < array.num_fields(); ++field) {
      if (field > 0) text_ += ',';
      quoted(array.struct_type()->field(field)->name());
      text_ += ':';
      value(*array.field(field), i);
    }
    text_ += '}';
  }

  void map(const arrow::MapArray& array, int64_t i) {
    text_ += '{';
    const int64_t begin = array.value_offset(i), end = begin + array.value_length(i);
    for (int64_t at = begin; at < end; ++at) {
      if (at > begin) text_ += ',';
      quoted(text_of(*array.keys(), at).text);
      text_ += ':';
      value(*array.items(), at);
    }
    text_ += '}';
  }

  template <class Float>
  void number(Float value) {
    if (!std::isfinite(value)) {
      text_ += "null";  // JSON has no such numbers
      return;
    }
    const std::string digits = fmt::format("{}", value);
    text_ += digits;
    if (digits.find_first_of(".e") == std::string::npos) text_ += ".0";  // as Python writes it: still no integer
  }

  std::string& text_;
};

template <class ArrayType>
const ArrayType& as(const Array& array) {
  return static_cast<const ArrayType&>(array);
}

/// The text of an array of texts or bytes. `is_bytes`: the type does not promise text.
std::string_view checked(std::string_view text, bool is_bytes) {
  const bool nul = text.find('\0') != std::string_view::npos;
  const bool utf8 = arrow::util::ValidateUTF8(text);
  if (is_bytes && (nul || !utf8)) throw NotText();
  if (!utf8) throw BadValue{Fault::kNotUtf8, "is not valid UTF-8"};
  if (nul) throw BadValue{Fault::kNul, "has a NUL character, which is not valid in text"};
  if (text.size() > kMaxRecordBytes) throw BadValue{Fault::kTooLong, "is longer than 16 MiB"};
  return text;
}

/// Calls `take` with the text if the array is one of texts or bytes; otherwise returns false.
template <class Take>
bool take_text(const Array& array, int64_t i, Take take) {
  switch (array.type_id()) {
    case Type::STRING:
      return take(checked(as<arrow::StringArray>(array).GetView(i), false));
    case Type::LARGE_STRING:
      return take(checked(as<arrow::LargeStringArray>(array).GetView(i), false));
    case Type::STRING_VIEW:
      return take(checked(as<arrow::StringViewArray>(array).GetView(i), false));
    case Type::BINARY:
      return take(checked(as<arrow::BinaryArray>(array).GetView(i), true));
    case Type::LARGE_BINARY:
      return take(checked(as<arrow::LargeBinaryArray>(array).GetView(i), true));
    case Type::BINARY_VIEW:
      return take(checked(as<arrow::BinaryViewArray>(array).GetView(i), true));
    case Type::FIXED_SIZE_BINARY:
      return take(checked(as<arrow::FixedSizeBinaryArray>(array).GetView(i), true));
    default:
      return false;
  }
}

/// Dates, times, intervals and rare types, in Arrow's words.
std::string words_of(const Array& array, int64_t i) {
  const auto scalar = array.GetScalar(i);
  if (!scalar.ok()) throw BadValue{Fault::kNotUtf8, "cannot be read"};
  const std::string words = (*scalar)->ToString();
  checked(words, true);
  return words;
}

bool is_words(const Array& array) {
  switch (array.type_id()) {
    case Type::DATE32:
    case Type::DATE64:
    case Type::TIMESTAMP:
    case Type::TIME32:
    case Type::TIME64:
    case Type::DURATION:
    case Type::INTERVAL_MONTHS:
    case Type::INTERVAL_DAY_TIME:
    case Type::INTERVAL_MONTH_DAY_NANO:
    case Type::SPARSE_UNION:
    case Type::DENSE_UNION:
    case Type::RUN_END_ENCODED:
      return true;
    default:
      return false;
  }
}

void JsonText::quoted(std::string_view text) {
  static constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
  text_ += '"';
  for (const char c : text) {
    if (const size_t which = kPlain.find(c); which != std::string_view::npos) {
      text_ += '\\';
      text_ += kNames[which];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

void JsonText::value(const Array& array, int64_t i) {
  // Also the end of lists that overlap, which multiply: each value adds something.
  if (text_.size() > kMaxRecordBytes) throw BadValue{Fault::kTooLong, "is longer than 16 MiB"};
  if (array.IsNull(i)) {
    text_ += "null";
    return;
  }
  const auto take = [this](std::string_view text) {
    quoted(text);
    return true;
  };
  if (take_text(array, i, take)) return;
  if (is_words(array)) {
    quoted(words_of(array, i));
    return;
  }
  switch (array.type_id()) {
    case Type::BOOL:
      text_ += as<arrow::BooleanArray>(array).Value(i) ? "true" : "false";
      return;
    case Type::HALF_FLOAT:
      return number(arrow::util::Float16::FromBits(as<arrow::HalfFloatArray>(array).Value(i)).ToFloat());
    case Type::FLOAT:
      return number(as<arrow::FloatArray>(array).Value(i));
    case Type::DOUBLE:
      return number(as<arrow::DoubleArray>(array).Value(i));
    case Type::LIST:
      return list(as<arrow::ListArray>(array), i);
    case Type::LARGE_LIST:
      return list(as<arrow::LargeListArray>(array), i);
    case Type::LIST_VIEW:
      return list(as<arrow::ListViewArray>(array), i);
    case Type::LARGE_LIST_VIEW:
      return list(as<arrow::LargeListViewArray>(array), i);
    case Type::FIXED_SIZE_LIST:
      return list(as<arrow::FixedSizeListArray>(array), i);
    case Type::STRUCT:
      return object(as<arrow::StructArray>(array), i);
    case Type::MAP:
      return map(as<arrow::MapArray>(array), i);
    case Type::DICTIONARY: {
      const auto& dictionary = as<arrow::DictionaryArray>(array);
      return value(*dictionary.dictionary(), dictionary.GetValueIndex(i));
    }
    case Type::EXTENSION:
      return value(*as<arrow::ExtensionArray>(array).storage(), i);
    default:
      text_ += words_of(array, i);  // integers and decimals
  }
}

}  // namespace

ValueText text_of(const Array& array, int64_t index) {
  if (array.IsNull(index)) return {"", true};
  if (array.type_id() == Type::DICTIONARY) {
    const auto& dictionary = as<arrow::DictionaryArray>(array);
    return text_of(*dictionary.dictionary(), dictionary.GetValueIndex(index));
  }
  if (array.type_id() == Type::EXTENSION) return text_of(*as<arrow::ExtensionArray>(array).storage(), index);
  ValueText out;
  const auto take = [&](std::string_view text) {
    out.text = text;
    return true;
  };
  if (take_text(array, index, take)) return out;
  if (is_words(array)) return {words_of(array, index), false};
  out.json = true;
  JsonText(out.text).value(array, index);
  if (out.text == "null") out.text.clear();  // a number that is not finite
  return out;
}

}  // namespace trainer::data
