// Weights that are stored in bf16 or fp16, row by row.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "models/nn/stored_rows.h"

namespace trainer::nn {

/// Of a matrix in bf16 or fp16 whose rows are contiguous.
std::unique_ptr<StoredRows> half_rows(const at::Tensor& matrix);

}  // namespace trainer::nn
