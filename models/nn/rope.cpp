#include "models/nn/rope.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <utility>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/base/round_up.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/device/rotation.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/reference.h"
#include "models/nn/reference/rotation.h"
#include "models/nn/rounded.h"
#include "models/nn/self_attention.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// base^(2 j / width) for the first `pairs` pairs.
std::vector<float> wavelengths(double base, int64_t pairs, int64_t width) {
  std::vector<float> all;
  for (int64_t j = 0; j < pairs; ++j)
    all.push_back(std::pow(static_cast<float>(base), static_cast<float>(2 * j) / static_cast<float>(width)));
  return all;
}

/// The base of "dynamic": the further a sample exceeds max_positions, the slower all pairs rotate.
double dynamic_base(const RopeOptions& o, int64_t head_dim, int64_t length) {
  const auto most = static_cast<double>(o.max_positions), width = static_cast<double>(head_dim);
  const double stretch = o.factor * std::max(static_cast<double>(length), most) / most - (o.factor - 1);
  return o.theta * std::pow(stretch, width / (width - 2));
}

double yarn_scale(const RopeOptions& o) {
  const auto scale = [&](double mscale) { return o.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(o.factor) + 1.0; };
  if (o.attention_factor) return *o.attention_factor;
  const double mscale = o.mscale.value_or(0), all_dim = o.mscale_all_dim.value_or(0);
  return mscale != 0 && all_dim != 0 ? scale(mscale) / scale(all_dim) : scale(1);
}

double longrope_scale(const RopeOptions& o) {
  if (o.attention_factor) return *o.attention_factor;
  return o.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(o.factor) / std::log(static_cast<double>(o.original_positions)));
}

/// Keeps pairs that rotate often within the original positions, stretches slow ones by `factor`, and ramps in between.
/// Source: Peng et al., YaRN, 2023.
void blend_yarn(const RopeOptions& o, int64_t head_dim, std::vector<float>& inverse) {
  const auto width = static_cast<double>(head_dim);
  const auto pair_that_turns = [&](double times) {
    return width * std::log(static_cast<double>(o.original_positions) / (times * 2 * std::numbers::pi)) /
           (2 * std::log(o.theta));
  };
  double low = pair_that_turns(o.beta_fast), high = pair_that_turns(o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  const auto first = static_cast<float>(low), range = static_cast<float>(high - low);
  for (size_t j = 0; j < inverse.size(); ++j) {
    const float keep = 1 - std::clamp((static_cast<float>(j) - first) / range, 0.0F, 1.0F);
    inverse[j] = inverse[j] / static_cast<float>(o.factor) * (1 - keep) + inverse[j] * keep;
  }
}

/// Stretches long waves by `factor`, keeps short ones, and ramps in between.
void blend_llama3(const RopeOptions& o, std::vector<float>& inverse) {
  const auto original = static_cast<float>(o.original_positions), factor = static_cast<float>(o.factor);
  const auto low = static_cast<float>(o.low_freq_factor), high = static_cast<float>(o.high_freq_factor);
  for (float& value : inverse) {
    const float wave = 2 * std::numbers::pi_v<float> / value;
    if (wave < original / high) continue;
    if (wave > original / low) {
      value /= factor;
      continue;
    }
    const float keep = (original / wave - low) / (high - low);
    value = (1 - keep) * value / factor + keep * value;
  }
}

/// "dynamic" and "longrope" depend on the length of the sample itself, never on the rest of its batch, so that a
/// sample's result does not depend on packing. (transformers takes the longest of the batch, and for "dynamic" the
/// longest so far.) While decoding, keys keep their rotation: a generated token counts the tokens up to itself, prompt
/// tokens count the whole prompt.
int64_t length_of(const Layout& rows, const Pass& pass, int64_t sample) {
  return positions_before(pass, sample) + rows.length_of_sample(sample);
}

void fill_rows(const RopeFrequencies& frequencies, int64_t position, int64_t rows, float* out) {
  const auto pairs = static_cast<int64_t>(frequencies.inverse.size());
  for (int64_t row = 0; row < rows; ++row, out += 2 * pairs)
    for (int64_t j = 0; j < pairs; ++j) {
      const float angle = static_cast<float>(position + row) * frequencies.inverse[j];
      out[j] = std::cos(angle) * frequencies.scale;
      out[pairs + j] = std::sin(angle) * frequencies.scale;
    }
}

bool depends_on_length(const RopeOptions& options) {
  return options.kind == RopeOptions::kDynamic || options.kind == RopeOptions::kLongrope;
}

/// The rows of all positions, for frequencies that do not depend on a sample's length: a device would wait for its host
/// to compute sines and cosines again for every batch (3.5 ms for 4096 positions of 128 elements).
class KnownRows {
 public:
  using Rows = std::shared_ptr<const std::vector<float>>;

  /// Those of at least the first `count` positions.
  Rows first(const RopeFrequencies& frequencies, int64_t count) {
    const std::lock_guard lock(mutex_);
    Rows& known = rows_[{frequencies.inverse, frequencies.scale}];
    const auto width = 2 * static_cast<int64_t>(frequencies.inverse.size());
    const int64_t before = known ? static_cast<int64_t>(known->size()) / width : 0;
    if (before < count) {
      constexpr int64_t kStep = 1024;
      const int64_t all = round_up(count, kStep);
      auto longer = known ? std::make_shared<std::vector<float>>(*known) : std::make_shared<std::vector<float>>();
      longer->resize(static_cast<size_t>(all * width));
      fill_rows(frequencies, before, all - before, longer->data() + before * width);
      known = std::move(longer);
    }
    return known;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::vector<float>, float>, Rows> rows_;  // one for each kind of layer of a model
};

/// `direction` 1 rotates, -1 rotates back.
template <class T>
inline __attribute__((always_inline)) void turn_row(const T* x, const float* table, float direction, int64_t heads,
                                                    int64_t pairs, T* out) {
  const float *const cosine = table, *const sine = table + pairs;
  for (int64_t h = 0; h < heads; ++h, x += 2 * pairs, out += 2 * pairs) {
#pragma omp simd
    for (int64_t j = 0; j < pairs; ++j) {
      const auto first = static_cast<float>(x[j]), second = static_cast<float>(x[pairs + j]);
      const float c = cosine[j], s = sine[j] * direction;
      out[j] = rounded<T>(first * c - second * s);
      out[pairs + j] = rounded<T>(second * c + first * s);
    }
  }
}
template <class T>
struct Turn {
  TRAINER_KERNEL static void rows(const T* x, const float* table, float direction, int64_t rows, int64_t heads,
                                  int64_t pairs, T* out) {
    for (int64_t r = 0; r < rows; ++r)
      turn_row(x + r * heads * 2 * pairs, table + r * 2 * pairs, direction, heads, pairs, out + r * heads * 2 * pairs);
  }
};

at::Tensor turned(const at::Tensor& given, const at::Tensor& table, float direction) {
  const at::Tensor x = given.contiguous();
  at::Tensor out = at::empty_like(x);
  const int64_t width = x.size(1), head = table.size(1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rotate", [&] {
    const scalar_t* const from = x.const_data_ptr<scalar_t>();
    const float* const angles = table.const_data_ptr<float>();
    scalar_t* const to = out.data_ptr<scalar_t>();
    parallel_for(0, rows_to_compute(x, x.size(0)), 16, [&](int64_t first, int64_t last) {
      Turn<scalar_t>::rows(from + first * width, angles + first * head, direction, last - first, width / head, head / 2,
                           to + first * width);
    });
  });
  return out;
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& table) {
    ctx->save_for_backward({table});
    return turned(x, table, 1);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {turned(grads[0], ctx->get_saved_variables()[0], -1), at::Tensor()};
  }
};

}  // namespace

RopeFrequencies rope_frequencies(const RopeOptions& o, int64_t head_dim, int64_t length) {
  using enum RopeOptions::Kind;
  const int64_t pairs = head_dim / 2;
  const int64_t turned =
      o.kind == kProportional ? static_cast<int64_t>(o.turned * static_cast<double>(head_dim)) / 2 : pairs;
  RopeFrequencies f;
  f.inverse = wavelengths(o.kind == kDynamic ? dynamic_base(o, head_dim, length) : o.theta, turned, head_dim);
  for (size_t j = 0; j < f.inverse.size(); ++j) {
    if (o.kind == kLongrope)
      f.inverse[j] *= static_cast<float>((length > o.original_positions ? o.long_factor : o.short_factor)[j]);
    f.inverse[j] = 1.0F / f.inverse[j];
    if (o.kind == kLinear || o.kind == kProportional) f.inverse[j] /= static_cast<float>(o.factor);
  }
  f.inverse.resize(pairs, 0.0F);  // "proportional": the other pairs do not rotate
  if (o.kind == kYarn) blend_yarn(o, head_dim, f.inverse), f.scale = static_cast<float>(yarn_scale(o));
  if (o.kind == kLongrope) f.scale = static_cast<float>(longrope_scale(o));
  if (o.kind == kLlama3) blend_llama3(o, f.inverse);
  return f;
}

at::Tensor rope_table(const RopeOptions& options, int64_t head_dim, const Layout& rows, const Pass& pass,
                      at::Device device) {
  // Computed on the host: it is small, and the values are the same for every device.
  static KnownRows known;
  return device::tensor_of_spans(rows, fmt::format("rotary table of {}", fmt::ptr(&options)), device, [&] {
    at::Tensor table = device::host_memory({rows.tokens(), head_dim}, at::kFloat, device);
    auto* const out = table.data_ptr<float>();
    parallel_for(0, rows_to_compute(table, rows.samples()), 1, [&](int64_t first, int64_t last) {
      for (int64_t s = first; s < last; ++s) {
        const RopeFrequencies frequencies = rope_frequencies(options, head_dim, length_of(rows, pass, s));
        const int64_t position = positions_before(pass, s) + rows.start(s), length = rows.spans[s].length;
        float* const to = out + rows.spans[s].begin * head_dim;
        if (depends_on_length(options)) {
          fill_rows(frequencies, position, length, to);
        } else {
          const KnownRows::Rows all = known.first(frequencies, position + length);
          std::copy_n(all->data() + position * head_dim, length * head_dim, to);
        }
      }
    });
    return table;
  });
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& table) {
  const DeviceKernels* const kernels = device_kernels(x);
  if (kernels != nullptr && element_type(x.scalar_type())) return device::rotate(*kernels, x, table);
  return runs_reference(x) ? reference::rotate(x, table) : Rotate::apply(x, table);
}

}  // namespace trainer::nn
