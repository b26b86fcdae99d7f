// Matrix products in fp32 on CPUs whose instructions libtorch's BLAS leaves unused.
#pragma once

namespace trainer::nn {

// Note [fp32 products]
// libtorch's BLAS is MKL, which uses AVX2 on AMD's CPUs whatever they have. oneDNN, which is also part of libtorch, uses
// AVX-512 there: a product takes less than half the time, with the same error (docs/performance.md). Large products are
// handed to it by replacing libtorch's mm and addmm in the dispatcher, as in Note [Half products]. TRAINER_BLAS=mkl
// leaves them to MKL.
//
// Some of oneDNN's kernels use the stack pointer as one more register, pointing into the heap (until 3.11.2, see its
// issue 4845). A signal's frame, which the kernel of the operating system writes below the stack pointer, then lands in
// somebody else's memory. So a thread that multiplies must not receive signals: Note [Signals].

/// Replaces libtorch's mm and addmm on this CPU, if that makes them faster. Called before the first product; later calls
/// do nothing.
void use_fp32_products();

}  // namespace trainer::nn
