#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/pass.h"

namespace trainer::nn {

/// Position ids for a table of learned positions: [T] int64 on `device`. Positions start at 0 in every sample, after
/// the pass's prefix and the cached tokens of the sample. Throws InputError when a sample exceeds the table's `count`
/// rows, which the configuration calls `key`.
at::Tensor position_ids(const Layout& rows, const Pass& pass, int64_t count, const char* key, at::Device device);

}  // namespace trainer::nn
