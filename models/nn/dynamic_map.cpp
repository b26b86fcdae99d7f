#include "models/nn/dynamic_map.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>

namespace trainer::nn {

std::vector<float> dynamic_map(bool with_sign) {
  constexpr int kExponents = 7;
  std::vector<float> values{0, 1};
  for (int i = 0; i < kExponents; ++i) {
    const at::Tensor bounds = at::linspace(0.1, 1, (int64_t{1} << (with_sign ? i : i + 1)) + 1, at::kFloat);
    const int64_t count = bounds.numel() - 1;
    const at::Tensor means = bounds.narrow(0, 0, count).add(bounds.narrow(0, 1, count)).div_(2.0);
    const at::Tensor scaled = means.mul(std::pow(10.0, i + 1 - kExponents));
    for (int64_t k = 0; k < count; ++k) {
      values.push_back(scaled[k].item<float>());
      if (with_sign) values.push_back(-values.back());
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace trainer::nn
