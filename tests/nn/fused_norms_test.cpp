// Norms through libtorch's fused operators, on the simulated device (tests/simulated/norms.cpp) or a GPU, against the
// CPU kernels.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/nn/layer_norm.h"
#include "models/nn/rms_norm.h"
#include "tests/nn/reference.h"
#include "tests/support/on_device.h"

namespace trainer::testing {
namespace {

constexpr int64_t kRows = 7, kWidth = 33;
using Norm = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

struct Found {
  std::vector<at::Tensor> values;     // the result, then the gradients of the inputs that have one
  int64_t forward = 0, backward = 0;  // launches, where they are counted
};

int64_t launches() {
  return asked().value_or(Asked{}).launches;
}

/// Runs `norm` on the inputs, of which `frozen` has no gradient.
Found run(const Norm& norm, const std::vector<at::Tensor>& given, at::Device device, size_t frozen) {
  std::vector<at::Tensor> in, wanted;
  for (size_t i = 0; i < given.size(); ++i) {
    in.push_back(given[i].to(device).detach().set_requires_grad(i != frozen));
    if (i != frozen) wanted.push_back(in.back());
  }
  Found found;
  const int64_t before = launches();
  const at::Tensor out = norm(in);
  found.forward = launches() - before;
  const at::Tensor grad = random_tensor(out.sizes(), 9, out.scalar_type()).to(device);
  const int64_t between = launches();
  found.values = torch::autograd::grad({out}, wanted, {grad});
  found.backward = launches() - between;
  found.values.insert(found.values.begin(), out.detach());
  for (at::Tensor& x : found.values) x = x.cpu();
  return found;
}

/// Compares the device with the CPU, and checks the launches.
void compare(const Norm& norm, const std::vector<at::Tensor>& inputs, size_t frozen, int64_t forward, int64_t backward,
             double tolerance) {
  const Found there = run(norm, inputs, device(), frozen), here = run(norm, inputs, at::kCPU, frozen);
  if (asked()) {
    EXPECT_EQ(there.forward, forward);
    EXPECT_EQ(there.backward, backward);
  }
  for (size_t i = 0; i < here.values.size(); ++i) {
    EXPECT_EQ(there.values[i].scalar_type(), here.values[i].scalar_type());
    const at::Tensor want = here.values[i].to(at::kDouble), apart = there.values[i].to(at::kDouble) - want;
    EXPECT_LE(apart.norm().item<double>(), tolerance * want.norm().item<double>()) << "value " << i;
  }
}

class FusedNorms : public OnDevice {};

constexpr size_t kNone = 99;
constexpr double kInFp32 = 3e-7, kInBf16 = 3e-3;  // bf16: one result in some is rounded the other way

TEST_F(FusedNorms, RmsNormIsOneOperatorEachWay) {
  const std::vector<at::Tensor> in{random_tensor({kRows, kWidth}, 1), random_tensor({kWidth}, 2)};
  for (const size_t frozen : {kNone, size_t{1}})
    compare([](const auto& x) { return nn::rms_norm(x[0], x[1], 1e-6, at::kFloat); }, in, frozen, 1, 1, kInFp32);
  // The result is converted to bf16, and its gradient from it.
  compare([](const auto& x) { return nn::rms_norm(x[0], x[1], 1e-6, at::kBFloat16); }, in, kNone, 2, 2, kInBf16);
}

TEST_F(FusedNorms, RoundsBeforeTheWeightAsTheCpuDoes) {
  const std::vector<at::Tensor> in{random_tensor({kRows, kWidth}, 1), random_tensor({kWidth}, 2)};
  const Norm norm = [](const auto& x) {
    return nn::rms_norm(x[0], x[1], 1e-6, at::kBFloat16, nn::RmsRounding::kBeforeWeight);
  };
  compare(norm, in, kNone, 4, 2, kInBf16);
}

TEST_F(FusedNorms, HalfPrecisionInputsHaveGradientsOfTheirDtype) {
  const std::vector<at::Tensor> in{random_tensor({kRows, kWidth}, 1, at::kBFloat16), random_tensor({kWidth}, 2)};
  compare([](const auto& x) { return nn::rms_norm(x[0], x[1], 1e-6, at::kFloat); }, in, kNone, 2, 3, kInBf16);
}

TEST_F(FusedNorms, LayerNormIsOneOperatorEachWay) {
  const std::vector<at::Tensor> in{random_tensor({kRows, kWidth}, 1), random_tensor({kWidth}, 2),
                                   random_tensor({kWidth}, 3)};
  const Norm norm = [](const auto& x) {
    return nn::layer_norm(x[0], x[1], x.size() > 2 ? x[2] : at::Tensor(), 1e-5, at::kFloat);
  };
  for (const size_t frozen : {kNone, size_t{1}, size_t{2}}) compare(norm, in, frozen, 1, 1, 1e-6);
  compare(norm, {in[0], in[1]}, kNone, 1, 1, 1e-6);
}

TEST_F(FusedNorms, NoRowsAreNoRows) {
  const std::vector<at::Tensor> in{random_tensor({0, kWidth}, 1), random_tensor({kWidth}, 2)};
  const Found there =
      run([](const auto& x) { return nn::rms_norm(x[0], x[1], 1e-6, at::kFloat); }, in, device(), kNone);
  EXPECT_EQ(there.values[0].sizes(), in[0].sizes());
  EXPECT_EQ(there.values[2].abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace trainer::testing
