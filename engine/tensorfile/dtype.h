// The element types of safetensors files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

namespace trainer::tensorfile {

struct Dtype {
  std::string_view name;  // as in the file: "F32"
  int64_t bits;           // of one element
  at::ScalarType type;    // Undefined if torch doesn't have it
};

/// The entry for a safetensors name, or null when there is none. Pointers stay valid and compare in the order in which
/// files store tensors: greater comes first.
const Dtype* find_dtype(std::string_view name);
/// The entry for a torch type, or null when safetensors has no name for it.
const Dtype* find_dtype(at::ScalarType type);

/// "BOOL, U8, …": all names, for messages.
std::string dtype_names();

}  // namespace trainer::tensorfile
