#include "data/tokenizers/wire_format.h"

#include <bit>

#include <fmt/format.h>

namespace trainer::data {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

}  // namespace

bool WireReader::next() {
  if (rest_.empty()) return false;
  uint64_t tag = take_varint();
  field_ = static_cast<uint32_t>(tag >> 3);
  wire_type_ = static_cast<uint32_t>(tag & 7);
  if (tag >> 32 != 0 || field_ == 0) throw Malformed{fmt::format("a field has the invalid tag {}", tag)};
  switch (wire_type_) {
    case kVarint:
      number_ = take_varint();
      break;
    case kFixed64:
      bytes_ = take(8);
      break;
    case kBytes:
      bytes_ = take(take_varint());
      break;
    case kFixed32:
      bytes_ = take(4);
      break;
    default:
      throw Malformed{fmt::format("field {} has the unknown wire type {}", field_, wire_type_)};
  }
  return true;
}

uint64_t WireReader::varint() const {
  expect(kVarint);
  return number_;
}

float WireReader::fixed32() const {
  expect(kFixed32);
  uint32_t bits = 0;
  for (size_t i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(static_cast<uint8_t>(bytes_[i])) << (8 * i);
  return std::bit_cast<float>(bits);
}

std::string_view WireReader::bytes() const {
  expect(kBytes);
  return bytes_;
}

uint64_t WireReader::take_varint() {
  uint64_t value = 0;
  for (size_t i = 0; i < 10 && i < rest_.size(); ++i) {
    auto byte = static_cast<uint8_t>(rest_[i]);
    value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return value;
    }
  }
  throw Malformed{"it ends inside a number, or a number is longer than 10 bytes"};
}

std::string_view WireReader::take(uint64_t size) {
  if (size > rest_.size()) {
    throw Malformed{
        fmt::format("field {} declares {} bytes, but {} are left: the file is truncated", field_, size, rest_.size())};
  }
  std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

void WireReader::expect(uint32_t wire_type) const {
  if (wire_type_ != wire_type) {
    throw Malformed{fmt::format("field {} has wire type {} instead of {}", field_, wire_type_, wire_type)};
  }
}

}  // namespace trainer::data
