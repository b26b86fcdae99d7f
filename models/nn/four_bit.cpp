#include "models/nn/four_bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include "models/nn/device/four_bit.h"
#include "models/nn/dynamic_map.h"
#include "models/nn/four_bit_kernels.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/four_bit.h"
#include "models/nn/reference/reference.h"

namespace trainer::nn {
namespace {

constexpr int64_t kScaleGroup = 256, kGrain = 512;  // blocks
constexpr int64_t kMostBlocks = 4;                  // that a panel has of a row

// -0 has a code of its own, the code after 0's.
constexpr FourBitCode kNf4{
    {-1.0F, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F, -0.28444138169288635F,
     -0.18477343022823334F, -0.09105003625154495F, 0.0F, 0.07958029955625534F, 0.16093020141124725F,
     0.24611230194568634F, 0.33791524171829224F, 0.44070982933044434F, 0.5626170039176941F, 0.7229568362236023F, 1.0F},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
constexpr FourBitCode kFp4{{0.0F, 0.0625F / 12, 8.0F / 12, 1.0F, 4.0F / 12, 6.0F / 12, 2.0F / 12, 3.0F / 12, 0.0F,
                            -0.0625F / 12, -8.0F / 12, -1.0F, -4.0F / 12, -6.0F / 12, -2.0F / 12, -3.0F / 12},
                           {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3}};

const std::vector<float>& scale_map() {
  static const std::vector<float> map = dynamic_map(/*with_sign=*/true);
  return map;
}

/// The code of `x` in [-1, 1]: as in bitsandbytes' table for the CPU, the nearest to one of 65,536 equal steps.
uint8_t scale_code(float x) {
  static const std::vector<float> bounds = [] {
    std::vector<float> means;
    for (size_t i = 0; i + 1 < scale_map().size(); ++i) means.push_back((scale_map()[i] + scale_map()[i + 1]) / 2);
    return means;
  }();
  const float step = std::trunc(std::fma((std::clamp(x, -1.0F, 1.0F) + 1) * 0.5F, 65535.0F, 0.5F));
  const float rounded = step * (2.0F / 65535.0F) - 1;
  return static_cast<uint8_t>(std::lower_bound(bounds.begin(), bounds.end(), rounded) - bounds.begin());
}

at::Tensor largest(const at::Tensor& given) {
  const at::Tensor values = given.contiguous(), most = at::empty({values.size(0)}, values.options());
  parallel_for(0, rows_to_compute(values, values.size(0)), kGrain, [&](int64_t first, int64_t last) {
    largest_of_blocks(values.const_data_ptr<float>() + first * kFourBitBlock, last - first,
                      most.data_ptr<float>() + first);
  });
  return most;
}

/// largest [blocks] → [groups, 2]: the scale of a group, and the mean of all blocks.
at::Tensor share_scales(const at::Tensor& largest) {
  const float* const all = largest.const_data_ptr<float>();
  const int64_t blocks = largest.numel(), groups = (blocks + kScaleGroup - 1) / kScaleGroup;
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += all[b];
  const auto mean = static_cast<float>(sum / static_cast<double>(blocks));
  at::Tensor shared = at::empty({groups, 2}, at::kFloat);
  for (int64_t g = 0; g < groups; ++g) {
    float most = 0;
    for (int64_t b = g * kScaleGroup; b < std::min(blocks, (g + 1) * kScaleGroup); ++b)
      most = std::max(most, std::fabs(all[b] - mean));
    float* const row = shared.data_ptr<float>() + 2 * g;
    row[0] = most;
    row[1] = mean;
  }
  return shared;
}

/// A format with values of `kCode`; before the codes, a block has its scale, in 4 bytes or, `doubled`, in 1.
template <const FourBitCode& kCode, bool doubled>
struct Format {
  static constexpr int64_t kScale = doubled ? 1 : 4, kBytes = kScale + kFourBitBytes;

  static at::Tensor encode(const at::Tensor& given, const at::Tensor& shared) {
    const at::Tensor values = given.contiguous(), scales = largest(values);
    const int64_t blocks = values.size(0);
    at::Tensor out = at::empty({blocks, kBytes}, values.options().dtype(at::kByte));
    parallel_for(0, blocks, kGrain, [&](int64_t first, int64_t last) {
      uint8_t* const to = out.data_ptr<uint8_t>() + first * kBytes;
      const float* const mine = scales.const_data_ptr<float>() + first;
      encode_four_bits(values.const_data_ptr<float>() + first * kFourBitBlock, mine, kCode, last - first, kBytes,
                       to + kScale);
      for (int64_t b = 0; b < last - first; ++b) {
        if constexpr (doubled) {
          const float* const of_group = shared.const_data_ptr<float>() + 2 * (first + b);
          to[b * kBytes] = of_group[0] == 0 ? 0 : scale_code((mine[b] - of_group[1]) * (1 / of_group[0]));
        } else {
          std::memcpy(to + b * kBytes, mine + b, kScale);
        }
      }
    });
    return out;
  }

  static at::Tensor decode(const at::Tensor& given, at::ScalarType dtype, const at::Tensor& shared) {
    const at::Tensor blocks = given.contiguous();
    at::Tensor out = at::empty({blocks.size(0), kFourBitBlock}, blocks.options().dtype(dtype));
    if (const DeviceKernels* const kernels = device_kernels(blocks); kernels != nullptr && element_type(dtype)) {
      device::decode_four_bits(*kernels, blocks, shared, scale_map(), kCode, out);
      return out;
    }
    const at::Tensor scales = reference::four_bit_scales(blocks, shared, scale_map());
    if (runs_reference(blocks)) {
      reference::decode_four_bits(blocks, scales, kCode, out);
      return out;
    }
    AT_DISPATCH_SWITCH(dtype, "decode_four_bits",
                       AT_DISPATCH_CASE(at::kFloat, [&] { run<scalar_t>(blocks, scales, out); })
                           AT_DISPATCH_CASE(at::kBFloat16, [&] { run<scalar_t>(blocks, scales, out); })
                               AT_DISPATCH_CASE(at::kHalf, [&] { run<scalar_t>(blocks, scales, out); }));
    return out;
  }

  template <class T>
  static void run(const at::Tensor& blocks, const at::Tensor& scales, at::Tensor& out) {
    parallel_for(0, rows_to_compute(blocks, blocks.size(0)), kGrain, [&](int64_t first, int64_t last) {
      decode_four_bits(blocks.const_data_ptr<uint8_t>() + first * kBytes + kScale, kBytes,
                       scales.const_data_ptr<float>() + first, kCode, last - first,
                       out.data_ptr<T>() + first * kFourBitBlock);
    });
  }

  struct Rows : StoredRows {
    Rows(const at::Tensor& blocks, const at::Tensor& groups, int64_t blocks_of_group)
        : StoredRows(blocks.const_data_ptr<uint8_t>(), blocks.size(1), kFourBitBlock, kBytes),
          shared(groups),
          group(blocks_of_group) {}

    void widen(int64_t row, int64_t column, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) const override {
      const int64_t count = columns / kFourBitBlock;
      for (int64_t r = 0; r < rows; ++r) {
        const auto* const first = reinterpret_cast<const uint8_t*>(at(row + r, column));
        float scales[kMostBlocks];
        for (int64_t b = 0; b < count; ++b) scales[b] = scale(first + b * kBytes);
        decode_four_bits(first + kScale, kBytes, scales, kCode, count, to + r * to_stride);
      }
    }

    float scale(const uint8_t* of_block) const {
      if constexpr (doubled) {
        const int64_t index = (of_block - reinterpret_cast<const uint8_t*>(data)) / kBytes;
        const float* const of_group = shared.const_data_ptr<float>() + 2 * (index / group);
        return scale_map()[*of_block] * of_group[0] + of_group[1];
      } else {
        float stored;
        std::memcpy(&stored, of_block, sizeof stored);
        return stored;
      }
    }

    at::Tensor shared;  // [groups, 2]
    int64_t group;
  };

  static std::unique_ptr<StoredRows> rows(const at::Tensor& blocks, const at::Tensor& shared, int64_t group) {
    return std::make_unique<Rows>(blocks, shared, group);
  }

  static PackedFormat format(const char* name) {
    PackedFormat made{name, kFourBitBlock, kBytes, kScale, encode, decode, rows};
    if (!doubled) return made;
    made.group = kScaleGroup;
    made.summary = largest;
    made.share = share_scales;
    return made;
  }
};

}  // namespace

const PackedFormat& four_bits(FourBits bits, bool double_quantized) {
  static const PackedFormat nf4 = Format<kNf4, false>::format("nf4"),
                            nf4_twice = Format<kNf4, true>::format("nf4, doubly quantized"),
                            fp4 = Format<kFp4, false>::format("fp4"),
                            fp4_twice = Format<kFp4, true>::format("fp4, doubly quantized");
  if (bits == FourBits::kNf4) return double_quantized ? nf4_twice : nf4;
  return double_quantized ? fp4_twice : fp4;
}

}  // namespace trainer::nn
