// The header of a safetensors file: a JSON object with the position of each tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensorfile/dtype.h"

namespace trainer::tensorfile {

struct TensorInfo {
  std::string name;
  const Dtype* dtype = nullptr;  // never null after reading
  std::vector<int64_t> shape;    // [] for a scalar
  int64_t offset = 0;            // of the first byte: after the header here, in the whole file in SafetensorsFile
  int64_t bytes = 0;

  int64_t numel() const { return bytes * 8 / dtype->bits; }
};

using Metadata = std::map<std::string, std::string>;

struct Header {
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // in file order, without holes
};

/// The longest header that is read, in bytes (the limit of the safetensors package).
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

/// Reads the header `json` of `file`, which is followed by `data_bytes` bytes, and checks every rule of the format.
/// Unlike the safetensors package, it also refuses duplicate names, since it is unclear which one counts.
/// Errors: InputError that names the file, the tensor and both values.
Header parse_header(std::string_view json, int64_t data_bytes, const std::filesystem::path& file);

/// Sorts `tensors` (name, dtype and shape given) in the order of the format, wide types first, then by name, and fills
/// in their offsets and bytes.
void lay_out(std::vector<TensorInfo>& tensors);

/// The JSON of a header, padded so that the data after it is aligned to 8 bytes.
std::string format_header(const Header& header);

/// `text` in quotes for one line of a message: shortened, with control characters replaced.
std::string shown_name(std::string_view text);

/// "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace trainer::tensorfile
