#include "models/nn/parallel.h"

#include <ATen/Parallel.h>

#ifndef _OPENMP
#error "compile this file with -fopenmp"
#endif

namespace trainer::nn {

void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> f) {
  at::parallel_for(begin, end, grain, f);
}

}  // namespace trainer::nn
