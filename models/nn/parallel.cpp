#include "models/nn/parallel.h"

#include <ATen/Parallel.h>

#ifndef _OPENMP
#error "compile this file with -fopenmp"
#endif

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace trainer::nn {

#ifdef __SANITIZE_THREAD__
/// libgomp isn't compiled for the thread sanitizer, which takes its threads for unordered without these calls.
void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> f) {
  char order = 0;
  __tsan_release(&order);
  at::parallel_for(begin, end, grain, [&](int64_t first, int64_t last) {
    __tsan_acquire(&order);
    f(first, last);
    __tsan_release(&order);
  });
  __tsan_acquire(&order);
}
#else
void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> f) {
  at::parallel_for(begin, end, grain, f);
}
#endif

}  // namespace trainer::nn
