#include "engine/tensorfile/dtype.h"

#include <array>

namespace trainer::tensorfile {
namespace {

using at::ScalarType;

// By alignment: a file stores its tensors from the last of these to the first.
constexpr std::array kDtypes = {
    Dtype{"BOOL", 8, ScalarType::Bool},
    Dtype{"F4", 4, ScalarType::Undefined},
    Dtype{"F6_E2M3", 6, ScalarType::Undefined},
    Dtype{"F6_E3M2", 6, ScalarType::Undefined},
    Dtype{"U8", 8, ScalarType::Byte},
    Dtype{"I8", 8, ScalarType::Char},
    Dtype{"F8_E5M2", 8, ScalarType::Float8_e5m2},
    Dtype{"F8_E4M3", 8, ScalarType::Float8_e4m3fn},
    Dtype{"F8_E8M0", 8, ScalarType::Float8_e8m0fnu},
    Dtype{"F8_E4M3FNUZ", 8, ScalarType::Float8_e4m3fnuz},
    Dtype{"F8_E5M2FNUZ", 8, ScalarType::Float8_e5m2fnuz},
    Dtype{"I16", 16, ScalarType::Short},
    Dtype{"U16", 16, ScalarType::UInt16},
    Dtype{"F16", 16, ScalarType::Half},
    Dtype{"BF16", 16, ScalarType::BFloat16},
    Dtype{"I32", 32, ScalarType::Int},
    Dtype{"U32", 32, ScalarType::UInt32},
    Dtype{"F32", 32, ScalarType::Float},
    Dtype{"C64", 64, ScalarType::ComplexFloat},
    Dtype{"F64", 64, ScalarType::Double},
    Dtype{"I64", 64, ScalarType::Long},
    Dtype{"U64", 64, ScalarType::UInt64},
};

}  // namespace

const Dtype* find_dtype(std::string_view name) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}

const Dtype* find_dtype(at::ScalarType type) {
  if (type == ScalarType::Undefined) return nullptr;
  for (const Dtype& dtype : kDtypes)
    if (dtype.type == type) return &dtype;
  return nullptr;
}

std::string dtype_names() {
  std::string names;
  for (const Dtype& dtype : kDtypes) names.append(names.empty() ? "" : ", ").append(dtype.name);
  return names;
}

}  // namespace trainer::tensorfile
