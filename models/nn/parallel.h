// Loops on several threads.
#pragma once

#include <cstdint>

#include <c10/util/FunctionRef.h>

namespace trainer::nn {

/// Calls f(first, last) for parts of [begin, end), of `grain` at least, on libtorch's threads, and waits for all of
/// them. (at::parallel_for() itself runs on one thread in files that are compiled without -fopenmp; parallel.cpp
/// isn't.) Errors: the first exception that f throws.
void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> f);

}  // namespace trainer::nn
