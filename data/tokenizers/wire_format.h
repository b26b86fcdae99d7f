// A bounds-checked reader of the protobuf wire format: enough to validate a file before a library that trusts it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainer::data {

/// Why some bytes are malformed; a caller that knows the file's name turns it into an InputError.
struct Malformed {
  std::string why;
};

/// Iterates over the fields of one message. Groups (deprecated since 2008) are rejected: their nesting is unbounded.
/// Source: protobuf.dev/programming-guides/encoding.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  /// Steps to the next field; false at the end. Errors: Malformed.
  bool next();

  /// The number of this field.
  uint32_t field() const { return field_; }

  // The value of this field. Errors: Malformed if it has another wire type.
  uint64_t varint() const;
  float fixed32() const;
  std::string_view bytes() const;

 private:
  uint64_t take_varint();
  std::string_view take(uint64_t size);
  void expect(uint32_t wire_type) const;

  std::string_view rest_;
  uint32_t field_ = 0;
  uint32_t wire_type_ = 0;
  uint64_t number_ = 0;     // of a varint
  std::string_view bytes_;  // of the other types
};

}  // namespace trainer::data
