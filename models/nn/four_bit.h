// bitsandbytes' 4-bit formats. Source: Dettmers et al. 2023, "QLoRA"; bitsandbytes 0.50, functional.py.
#pragma once

#include "models/nn/storage.h"

namespace trainer::nn {

/// The 16 values of a code: quantiles of the normal distribution, or 1 bit of sign, 2 of exponent and 1 of mantissa.
enum class FourBits { kNf4, kFp4 };

/// Blocks of 64 values: 4 bits for each, and the largest absolute value of the block in fp32, or, doubly quantized, in
/// 8 bits. Then 256 blocks share a scale, and all of the tensor the mean that is subtracted before.
/// Codes and values are those of bitsandbytes on the CPU, except that the mean is summed in fp64, which can change the
/// last digits of the scales.
const PackedFormat& four_bits(FourBits bits, bool double_quantized);

}  // namespace trainer::nn
