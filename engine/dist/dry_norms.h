#pragma once

#include <torch/library.h>

namespace trainer::dist {

/// Meta kernels of libtorch's fused norms: the shapes of their results.
void add_norm_shapes(torch::Library& shapes);

}  // namespace trainer::dist
