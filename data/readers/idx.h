// IDX files, the format of MNIST: arrays of big-endian numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/readers/byte_source.h"

namespace trainer::data {

/// The type codes in an IDX header.
enum class IdxType : uint8_t {
  kUint8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0B,
  kInt32 = 0x0C,
  kFloat32 = 0x0D,
  kFloat64 = 0x0E,
};

/// The array of an IDX file; a view of its bytes.
struct IdxArray {
  IdxType type = IdxType::kUint8;
  std::vector<int64_t> sizes;  // one to 255 dimensions
  std::string_view values;     // big-endian, the last dimension innermost
};

/// Bytes of one value; 0 for an unknown type.
int64_t value_bytes(IdxType type);

/// Parses a whole file. `path` is for messages.
/// Errors: InputError when it isn't an IDX file, is truncated, or is longer than its header declares.
IdxArray parse_idx(std::string_view bytes, const std::string& path);

/// The content of an IDX file. Reads at most one byte more than the header declares.
/// Errors: InputError when the header is invalid, or the file can't be decompressed.
std::string read_idx(ByteSource& bytes, const std::string& path);

}  // namespace trainer::data
