#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/pass.h"

namespace trainer::nn {

/// Which row of a table of learned positions each row of tokens takes: [T] int64 on `device`. Positions begin at 0 with
/// every sample, after the pass's prefix and what its cache holds of the sample.
/// Throws InputError when a sample is longer than the table's `count` rows, which the configuration calls `key`.
at::Tensor position_ids(const Layout& rows, const Pass& pass, int64_t count, const char* key, at::Device device);

}  // namespace trainer::nn
