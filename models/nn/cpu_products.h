// The matrix products of this CPU.
#pragma once

#include <c10/core/ScalarType.h>

namespace trainer::nn {

// Note [CPU products]
// Where libtorch's products are slow on this CPU, ours take their place (Note [bf16 products], Note [Half
// products], Note [fp32 products]). The environment's TRAINER_BLAS=mkl leaves all of them to libtorch. libtorch's mm
// and addmm are replaced in the dispatcher, so that autograd, optimizers and adapters use them too. Only here: of two
// replacements of an operator, the dispatcher forgets the first.

/// Replaces libtorch's mm and addmm. Called before the first product; later calls do nothing.
void use_cpu_products();

/// Whether TRAINER_BLAS=mkl is set.
bool leaves_all_to_libtorch();

/// Whether each element of a product of this dtype is the same sum with any number of threads. MKL doesn't promise it.
bool products_ignore_threads(at::ScalarType type);

}  // namespace trainer::nn
