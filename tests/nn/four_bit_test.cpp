// 4-bit formats against bitsandbytes (tests/golden/make_four_bit.py).
#include "models/nn/four_bit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "engine/tensorfile/safetensors_file.h"
#include "models/nn/dynamic_map.h"
#include "tests/nn/reference.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

struct FourBitCase {
  const char* name;
  nn::FourBits bits;
  bool twice;
};

nn::Storage storage_of(const nn::PackedFormat& format, const at::Tensor& whole) {
  nn::Storage storage(format);
  if (format.group > 0)
    storage.groups = std::make_shared<nn::BlockGroups>(
        nn::BlockGroups{format.share(format.summary(whole.reshape({-1, format.block}))), {}, whole.sizes().vec()});
  return storage;
}

class FourBit : public ::testing::TestWithParam<FourBitCase> {
 protected:
  FourBit() : file(source_dir() + "/tests/golden/four_bit.safetensors"), values(file.tensor("values").to(at::kFloat)) {}
  at::Tensor golden(const char* what) const { return file.tensor(std::string(GetParam().name) + "." + what); }

  const tensorfile::SafetensorsFile file;
  const at::Tensor values;
  const nn::PackedFormat& format = nn::four_bits(GetParam().bits, GetParam().twice);
  const nn::Storage storage = storage_of(format, values);
};

TEST_P(FourBit, CodesAndScalesAreThoseOfBitsandbytes) {
  const at::Tensor blocks = storage.encode(values).view({-1, format.bytes});
  const int64_t head = format.bytes - 32;
  EXPECT_TRUE(at::equal(blocks.narrow(1, head, 32), golden("codes")));
  const at::Tensor scales = blocks.narrow(1, 0, head).contiguous();
  EXPECT_TRUE(at::equal((head == 4 ? scales.view(at::kFloat) : scales).view(-1), golden("scales")));
}

TEST_P(FourBit, GroupsAreThoseOfBitsandbytes) {
  if (!GetParam().twice) GTEST_SKIP() << "the format has no groups";
  const at::Tensor& shared = storage.groups->shared;
  // bitsandbytes sums the mean in fp32.
  EXPECT_NEAR(shared[0][1].item<float>() / golden("mean").item<float>(), 1, 1e-6);
  EXPECT_LT((shared.select(1, 0) / golden("groups") - 1).abs().max().item<float>(), 1e-6);
  EXPECT_EQ(format.groups_of(values.numel()), shared.size(0));
}

TEST_P(FourBit, ValuesAreThoseOfBitsandbytes) {
  const at::Tensor decoded = storage.decode(storage.encode(values), at::kFloat);
  const at::Tensor found = decoded.view({-1, 64}).slice(0, 0, std::nullopt, 16), expected = golden("decoded");
  if (GetParam().twice) {
    EXPECT_LE((found - expected).abs().max().item<float>(), 1e-6 * expected.abs().max().item<float>());
  } else {
    EXPECT_TRUE(at::equal(found, expected));
  }
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    EXPECT_TRUE(at::equal(storage.decode(storage.encode(values), dtype), decoded.to(dtype)));
}

TEST_P(FourBit, PartsOfATensorHaveItsBlocks) {
  const at::Tensor whole = storage.encode(values);
  for (const int64_t begin : {int64_t{0}, int64_t{64 * 250}, int64_t{64 * 300}}) {
    const int64_t count = 64 * 20;
    const at::Tensor part = storage.encode(values.view(-1).narrow(0, begin, count), begin);
    EXPECT_TRUE(at::equal(part, whole.view(-1).narrow(0, storage.elements(begin), storage.elements(count))));
    EXPECT_TRUE(at::equal(storage.decode(part, at::kFloat, begin),
                          storage.decode(whole, at::kFloat).view(-1).narrow(0, begin, count)));
  }
}

/// As tensor-parallel ranks hold them: rows, and columns in two ranges.
TEST_P(FourBit, SlicesOfATensorHaveItsBlocks) {
  const at::Tensor whole = storage.encode(values), decoded = storage.decode(whole, at::kFloat);
  for (const nn::Part& part : {nn::Part{0, {{13, 40}, {50, 66}}}, nn::Part{1, {{64, 128}, {192, 320}}}}) {
    const auto cut = [&](const at::Tensor& x, int64_t columns) {
      std::vector<at::Tensor> ranges;
      for (const nn::Range& range : part.ranges) {
        const int64_t scale = part.dim == 1 ? columns : 1, of = part.dim == 1 ? 64 : 1;
        ranges.push_back(x.narrow(part.dim, range.begin / of * scale, (range.end - range.begin) / of * scale));
      }
      return at::cat(ranges, part.dim).contiguous();
    };
    nn::Storage slice = storage;
    if (storage.groups)
      slice.groups =
          std::make_shared<nn::BlockGroups>(nn::BlockGroups{storage.groups->shared, part, values.sizes().vec()});
    EXPECT_TRUE(at::equal(slice.encode(cut(values, 64)), cut(whole, format.bytes)));
    EXPECT_TRUE(at::equal(slice.decode(cut(whole, format.bytes), at::kFloat), cut(decoded, 64)));
    EXPECT_TRUE(at::equal(slice.of_whole().decode(whole, at::kFloat), decoded));
  }
}

TEST_P(FourBit, ZerosStayZeros) {
  const at::Tensor zeros = at::zeros({256, 64});
  const nn::Storage of_zeros = storage_of(format, zeros);
  EXPECT_TRUE(at::equal(of_zeros.decode(of_zeros.encode(zeros), at::kFloat), zeros));
}

INSTANTIATE_TEST_SUITE_P(Formats, FourBit,
                         ::testing::Values(FourBitCase{"nf4", nn::FourBits::kNf4, false},
                                           FourBitCase{"nf4_double", nn::FourBits::kNf4, true},
                                           FourBitCase{"fp4", nn::FourBits::kFp4, false},
                                           FourBitCase{"fp4_double", nn::FourBits::kFp4, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FourBitSize, IsFourAndAHalfBitsOrLess) {
  const nn::Storage once(nn::four_bits(nn::FourBits::kNf4, false)), twice(nn::four_bits(nn::FourBits::kNf4, true));
  EXPECT_EQ(once.bytes(64), 36);
  EXPECT_EQ(twice.bytes(64), 33);
  EXPECT_EQ(once.grain(), 64);
  EXPECT_EQ(twice.grain(), 64);
}

}  // namespace
}  // namespace trainer::testing
