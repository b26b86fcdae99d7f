#include "models/nn/embedding_noise.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/device_kernels.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/draws.h"
#include "models/nn/reference/reference.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Largest noise of a span's rows.
float magnitude(const Layout& layout, int64_t span, int64_t width, double alpha) {
  const auto elements = static_cast<double>(layout.length_of_sample(span) * width);
  return static_cast<float>(alpha / std::sqrt(elements));
}

/// [T] fp32 on `device`.
at::Tensor magnitudes(const Layout& layout, int64_t width, double alpha, at::Device device) {
  return device::tensor_of_spans(layout, "noise of " + std::to_string(width), device, [&] {
    const at::Tensor all = device::host_memory({layout.tokens()}, at::kFloat, device);
    for (int64_t s = 0; s < rows_to_compute(all, layout.samples()); ++s)
      std::fill_n(all.data_ptr<float>() + layout.spans[s].begin, layout.spans[s].length,
                  magnitude(layout, s, width, alpha));
    return all;
  });
}

/// Half an odd number of 2^-15: it is uniform in (-1, 1), and neither 0 nor an end.
TRAINER_KERNEL void add_noise_row(const float* x, const uint16_t* draws, float magnitude, int64_t n, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + magnitude * ((static_cast<float>(draws[i]) + 0.5F) / 32768.0F - 1.0F);
}

void add_on_cpu(const at::Tensor& x, PhiloxKey key, double alpha, const Layout& layout, at::Tensor& out) {
  const int64_t width = x.size(1), chunks = (width + kPhiloxChunk - 1) / kPhiloxChunk;
  parallel_for(0, rows_to_compute(x, layout.samples()), 1, [&](int64_t first, int64_t last) {
    std::vector<uint16_t> draws(chunks * kPhiloxChunk);
    for (int64_t s = first; s < last; ++s)
      for (int64_t token = 0; token < layout.spans[s].length; ++token) {
        philox_u16(key, static_cast<uint64_t>(layout.sample_index[s]), static_cast<uint32_t>(layout.start(s) + token),
                   0, chunks, draws.data());
        const int64_t at = (layout.spans[s].begin + token) * width;
        add_noise_row(x.const_data_ptr<float>() + at, draws.data(), magnitude(layout, s, width, alpha), width,
                      out.data_ptr<float>() + at);
      }
  });
}

struct AddNoise : torch::autograd::Function<AddNoise> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& given, PhiloxKey key, double alpha,
                            const LayoutPtr& layout) {
    const at::Tensor x = given.contiguous();
    const int64_t width = x.size(1);
    if (const DeviceKernels* const kernels = device_kernels(x)) {
      const auto& rows = device::tensors_of(*layout, x.device());
      const at::Tensor sizes = magnitudes(*layout, width, alpha, x.device());
      at::Tensor out = at::empty_like(x);
      kernels->add_noise(device::address_as<float>(x), device::address_as<float>(sizes),
                         {device::address_as<int64_t>(rows.sample_index), device::address_as<int64_t>(rows.token), key},
                         x.size(0), width, static_cast<float*>(device::address_in(out)),
                         device::stream_of(*kernels, x));
      return out;
    }
    if (runs_reference(x))
      return x + magnitudes(*layout, width, alpha, x.device()).unsqueeze(1) *
                     reference::uniform(key, *layout, width, x.device());
    at::Tensor out = at::empty_like(x);
    add_on_cpu(x, key, alpha, *layout, out);
    return out;
  }

  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0], at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor add_noise(const at::Tensor& x, PhiloxKey key, double alpha, const LayoutPtr& layout) {
  return AddNoise::apply(x, key, alpha, layout);
}

Rows with_noise(const Rows& x, const Pass& pass, std::string_view place) {
  if (pass.embedding_noise == 0) return x;
  return x.with(add_noise(x.x, philox_key(pass.seed, std::string(place) + ".noise"), pass.embedding_noise, x.layout));
}

}  // namespace trainer::nn
