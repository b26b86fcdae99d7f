// Compiles a kernel, a simple loop, for several instruction sets; the loader picks the one for this CPU.
#pragma once

#include <ATen/core/Tensor.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they run before a sanitizer is ready
#define TRAINER_KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAINER_KERNEL
#endif

namespace trainer::nn {

/// How many of `rows` rows of `x` a kernel computes: none in a dry run, where tensors have shapes but no values.
inline int64_t rows_to_compute(const at::Tensor& x, int64_t rows) {
  return x.is_meta() ? 0 : rows;
}

}  // namespace trainer::nn
