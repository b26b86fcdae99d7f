// Products with weights as they are stored: the bits of those with the decoded weights, without these in memory.
#include "models/nn/stored_weight.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "models/nn/cpu_products.h"
#include "models/nn/four_bit.h"
#include "models/nn/linear.h"
#include "models/nn/reference/reference.h"
#include "models/nn/tiled_operand.h"
#include "tests/nn/portable_tiles.h"

namespace trainer::testing {
namespace {

struct Kind {
  const char* name;
  at::ScalarType plain;  // if not packed
  const nn::PackedFormat* (*packed)();
};
const nn::PackedFormat* nf4() { return &nn::four_bits(nn::FourBits::kNf4, false); }
const nn::PackedFormat* nf4_twice() { return &nn::four_bits(nn::FourBits::kNf4, true); }
const nn::PackedFormat* fp4() { return &nn::four_bits(nn::FourBits::kFp4, false); }

/// `values` [rows, columns] as they are stored, and how.
struct Weight {
  nn::Storage storage;
  at::Tensor value;
};

Weight stored(const Kind& kind, const at::Tensor& values) {
  if (kind.packed == nullptr) return {kind.plain, values.to(kind.plain)};
  nn::Storage storage(*kind.packed());
  const nn::PackedFormat& format = *storage.packed;
  if (format.group > 0)
    storage.groups = std::make_shared<nn::BlockGroups>(
        nn::BlockGroups{format.share(format.summary(values.reshape({-1, format.block}))), {}, values.sizes().vec()});
  return {storage, storage.encode(values)};
}

class StoredWeights : public ::testing::TestWithParam<Kind> {
 protected:
  StoredWeights() { at::manual_seed(1); }
  ~StoredWeights() override { at::set_num_threads(threads_); }
  const int threads_ = at::get_num_threads();
};
INSTANTIATE_TEST_SUITE_P(, StoredWeights,
                         ::testing::Values(Kind{"bf16", at::kBFloat16, nullptr}, Kind{"fp16", at::kHalf, nullptr},
                                           Kind{"nf4", at::kByte, nf4}, Kind{"nf4_twice", at::kByte, nf4_twice},
                                           Kind{"fp4", at::kByte, fp4}),
                         [](const auto& info) { return std::string(info.param.name); });

struct Size {
  int64_t m, rows, columns;
};
// Around panels of 64 columns and 256 terms, blocks of few rows, and tiles. 4-bit rows are whole blocks of 64.
constexpr Size kSizes[] = {{1, 300, 320},  {3, 64, 64},    {6, 257, 256},  {8, 256, 576}, {16, 290, 640},
                           {17, 70, 128},  {40, 129, 320}, {100, 300, 192}, {1600, 20, 64}, {30, 1, 64}};

TEST_P(StoredWeights, TilesHaveTheBitsOfTheDecodedWeight) {
  for (const nn::TileKernels* const kernels :
       {nn::avx512_tile_kernels(), nn::avx2_tile_kernels(), &portable_tiles()}) {
    if (kernels == nullptr) continue;
    for (const auto& [m, rows, columns] : kSizes) {
      const Weight weight = stored(GetParam(), at::randn({rows, columns}));
      const at::Tensor wide = weight.storage.decode(weight.value, at::kFloat);
      const auto as_stored = weight.storage.rows(weight.value);
      for (const bool transposed : {false, true})
        for (const float beta : {0.0F, 0.5F}) {
          SCOPED_TRACE(::testing::Message() << m << " rows, weight " << rows << " x " << columns << ", transposed "
                                            << transposed << ", beta " << beta << ", lanes " << kernels->lanes);
          const int64_t n = transposed ? rows : columns, k = transposed ? columns : rows;
          const at::Tensor a = at::randn({m, k});
          const auto* const b = wide.const_data_ptr<float>();
          const nn::Strided<float> rows_of_a{a.const_data_ptr<float>(), k, 1},
              plain = transposed ? nn::Strided<float>{b, 1, columns} : nn::Strided<float>{b, columns, 1};
          at::Tensor expected = at::full({m, n}, beta == 0 ? NAN : 1.0F), found = expected.clone();
          nn::tiled_gemm(*kernels, m, n, k, 0.75F, rows_of_a, plain, beta, expected.data_ptr<float>(), n);
          nn::tiled_gemm(*kernels, m, n, k, 0.75F, rows_of_a,
                         nn::StoredOperand(*kernels, *as_stored, transposed, 0, n, k), beta,
                         found.data_ptr<float>(), n);
          EXPECT_TRUE(at::equal(found, expected));
        }
    }
  }
}

/// libtorch's products may add up in another order than tiles.
bool same(const at::Tensor& x, const at::Tensor& y) {
  return nn::products_ignore_threads(at::kFloat) ? at::equal(x, y) : at::allclose(x, y, 1e-5, 1e-4);
}

TEST_P(StoredWeights, ProductsAreThoseOfTheDecodedWeight) {
  nn::use_cpu_products();
  for (const int threads : {1, 3})
    for (const auto& [m, rows, columns] : kSizes)
      for (const bool turned : {false, true}) {  // as GPT-2's are packed
        if (turned && GetParam().packed == nullptr) continue;
        SCOPED_TRACE(::testing::Message() << m << " rows, weight " << rows << " x " << columns << ", " << threads
                                          << " threads, turned " << turned);
        at::set_num_threads(threads);
        Weight weight = stored(GetParam(), at::randn({rows, columns}));
        weight.storage.transposed = turned;
        const at::Tensor wide = weight.storage.decode(weight.value, at::kFloat), x = at::randn({m, wide.size(0)}),
                         y = at::randn({wide.size(1), m}).t();
        EXPECT_TRUE(same(nn::StoredWeight(weight.value, weight.storage, x).multiply(x, false), at::mm(x, wide)));
        EXPECT_TRUE(same(nn::StoredWeight(weight.value, weight.storage, y).multiply(y, true), at::mm(y, wide.t())));
      }
}

TEST_P(StoredWeights, SlicesHaveTheScalesOfTheirGroups) {
  if (GetParam().packed == nullptr) GTEST_SKIP() << "no groups";
  nn::use_cpu_products();
  const at::Tensor values = at::randn({512, 128});
  const Weight whole = stored(GetParam(), values);
  nn::Storage storage = whole.storage;
  const nn::Part part{.dim = 0, .ranges = {{100, 300}}};
  if (storage.groups)
    storage.groups =
        std::make_shared<nn::BlockGroups>(nn::BlockGroups{storage.groups->shared, part, values.sizes().vec()});
  const at::Tensor slice = storage.encode(values.narrow(0, 100, 200)), x = at::randn({40, 128});
  EXPECT_TRUE(at::equal(slice, whole.value.narrow(0, 100, 200)));
  EXPECT_TRUE(same(nn::StoredWeight(slice, storage, x).multiply(x, true),
                   at::mm(x, whole.storage.decode(whole.value, at::kFloat).narrow(0, 100, 200).t())));
}

/// What operators did: the sizes of products, and the largest memory that a result lies in.
struct Observed {
  std::vector<std::vector<int64_t>> products;  // rows, terms and columns
  size_t largest = 0;                          // bytes
};
Observed* observed = nullptr;

std::unique_ptr<at::ObserverContext> see_product(const at::RecordFunction& call) {
  if (std::string(call.name()) == "aten::mm") {
    const at::Tensor a = call.inputs()[0].toTensor(), b = call.inputs()[1].toTensor();
    observed->products.push_back({a.size(0), a.size(1), b.size(1)});
  }
  return nullptr;
}

void see_results(const at::RecordFunction& call, at::ObserverContext*) {
  for (const c10::IValue& one : call.outputs())
    if (one.isTensor() && one.toTensor().defined())
      observed->largest = std::max(observed->largest, one.toTensor().storage().nbytes());
}

/// Observes operators of this thread while it lives.
struct Observer {
  Observer() { observed = &result; }
  ~Observer() { at::removeCallback(handle); }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  Observed result;
  const at::CallbackHandle handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(see_product, see_results)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
};

TEST_P(StoredWeights, LayersNeverDecodeAWholeWeight) {
  constexpr int64_t kIn = 192, kOut = 320, kRows = 20;
  nn::Linear linear(kIn, kOut, /*bias=*/false, nn::Init{nn::Init::kNormal, 1});
  if (!nn::products_ignore_threads(at::kFloat)) GTEST_SKIP() << "MKL's products need the decoded weight";
  const Weight weight = stored(GetParam(), at::randn({kOut, kIn}));
  linear.weight()->storage = weight.storage;
  linear.weight()->value = weight.value;
  linear.weight()->trainable = false;
  for (const at::DeviceType where : {at::kCPU, at::kMeta}) {  // a dry run counts the same memory
    SCOPED_TRACE(where);
    linear.weight()->value = weight.value.to(where);
    const at::Tensor x = at::randn({kRows, kIn}).to(where).requires_grad_();
    const at::Tensor out_grad = at::randn({kRows, kOut}).to(where);
    const Observer observer;
    linear({x}, {}).x.backward(out_grad);
    const Observed& seen = observer.result;
    // The profiler sees both products with their sizes.
    EXPECT_EQ(seen.products, (std::vector<std::vector<int64_t>>{{kRows, kIn, kOut}, {kRows, kOut, kIn}}));
    EXPECT_GT(seen.largest, 0);
    EXPECT_LT(seen.largest, kIn * kOut * sizeof(float));
  }
}

TEST_P(StoredWeights, ReferenceLayersDecode) {
  const nn::ReferenceEverywhere everywhere;
  const Weight weight = stored(GetParam(), at::randn({96, 64}));
  const at::Tensor x = at::randn({5, 64});
  EXPECT_TRUE(at::equal(nn::StoredWeight(weight.value, weight.storage, x).multiply(x, true),
                        at::mm(x, weight.storage.decode(weight.value, at::kFloat).t())));
}

}  // namespace
}  // namespace trainer::testing
