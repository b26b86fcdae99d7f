#pragma once

#include <torch/library.h>

namespace trainer::dist {

/// Meta kernels of libtorch's fused attention: the shapes of its results, and the memory that it needs on the way.
void add_attention_shapes(torch::Library& shapes);

}  // namespace trainer::dist
