// A packed format for tests: 32 integers of 8 bits and the fp32 scale that they are multiplied by.
#pragma once

#include "models/nn/storage.h"

namespace trainer::testing {

const nn::PackedFormat& int8_blocks();

}  // namespace trainer::testing
