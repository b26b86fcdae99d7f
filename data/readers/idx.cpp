#include "data/readers/idx.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr size_t kMagicBytes = 4, kSizeBytes = 4, kMostDimensions = 255, kPortionBytes = size_t{1} << 20;
constexpr int64_t kMostBytes = int64_t{4} << 30;  // the values are held in memory

/// The header before the values.
struct Header {
  IdxType type = IdxType::kUint8;
  std::vector<int64_t> sizes;
  size_t bytes = 0;         // size of the header
  int64_t value_bytes = 0;  // of all values
};

uint32_t big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

Header parse_header(std::string_view bytes, const std::string& path) {
  Header header;
  if (bytes.size() < kMagicBytes || bytes[0] != 0 || bytes[1] != 0) {
    throw InputError("{}: not an IDX file: it must begin with two zero bytes.", path);
  }
  header.type = static_cast<IdxType>(bytes[2]);
  const auto dimensions = static_cast<size_t>(static_cast<unsigned char>(bytes[3]));
  const int64_t size_of_one = value_bytes(header.type);
  if (size_of_one == 0) {
    throw InputError("{}: unknown value type 0x{:02x}; IDX has 0x08, 0x09 and 0x0B to 0x0E.", path,
                     static_cast<unsigned char>(bytes[2]));
  }
  if (dimensions == 0) throw InputError("{}: the array has no dimensions.", path);
  header.bytes = kMagicBytes + dimensions * kSizeBytes;
  if (bytes.size() < header.bytes) {
    throw InputError("{}: truncated: {} bytes, but the header of {} dimensions alone has {}.", path, bytes.size(),
                     dimensions, header.bytes);
  }
  header.value_bytes = size_of_one;
  for (size_t i = 0; i < dimensions; ++i) {
    header.sizes.push_back(big_endian(bytes.substr(kMagicBytes + i * kSizeBytes)));
    // After an overflow, only a size of 0 could make the product fit again; such a file is useless.
    if (__builtin_mul_overflow(header.value_bytes, header.sizes.back(), &header.value_bytes) ||
        header.value_bytes > kMostBytes) {
      throw InputError("{}: its header declares more than {} bytes of values.", path, kMostBytes);
    }
  }
  return header;
}

/// Reads until `content` has `size` bytes, or to the end. Memory grows with the bytes actually read.
void read_up_to(size_t size, ByteSource& bytes, std::string& content) {
  while (content.size() < size) {
    const size_t old = content.size();
    content.resize(std::min(size, old + kPortionBytes));
    const size_t count = bytes.read(content.data() + old, content.size() - old);
    content.resize(old + count);
    if (count == 0) return;
  }
}

}  // namespace

int64_t value_bytes(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  return 0;
}

IdxArray parse_idx(std::string_view bytes, const std::string& path) {
  Header header = parse_header(bytes, path);
  const auto needed = header.bytes + static_cast<size_t>(header.value_bytes);
  if (bytes.size() != needed) {
    throw InputError("{}: {}: {} bytes, but its header declares {}.", path,
                     bytes.size() < needed ? "truncated" : "extra bytes after its values", bytes.size(), needed);
  }
  return {header.type, std::move(header.sizes), bytes.substr(header.bytes)};
}

std::string read_idx(ByteSource& bytes, const std::string& path) try {
  std::string content;
  read_up_to(kMagicBytes + kMostDimensions * kSizeBytes, bytes, content);
  const Header header = parse_header(content, path);
  read_up_to(header.bytes + static_cast<size_t>(header.value_bytes) + 1, bytes, content);
  return content;
} catch (const BrokenBytes& error) {
  throw InputError("{}: {}.", path, error.what());
}

}  // namespace trainer::data
