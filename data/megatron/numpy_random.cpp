#include "data/megatron/numpy_random.h"

#include <bit>

namespace trainer::data {

uint32_t NumpyRandom::at_most(uint32_t max) {
  if (max == 0) return 0;  // numpy draws nothing then
  const uint32_t mask = UINT32_MAX >> std::countl_zero(max);
  uint32_t value;
  do {
    value = static_cast<uint32_t>(engine_()) & mask;
  } while (value > max);
  return value;
}

}  // namespace trainer::data
