#include "models/nn/init.h"

#include <cmath>
#include <numbers>


#include "models/nn/parallel.h"
#include "models/nn/philox.h"

namespace trainer::nn {
namespace {

constexpr int64_t kGroup = 4;  // elements drawn per counter

/// In (0, 1].
float unit(uint32_t bits) {
  return (static_cast<float>(bits >> 8) + 1.0F) * 0x1p-24F;
}

void draw_group(const Init& init, PhiloxKey key, int64_t group, float out[kGroup]) {
  const uint32_t counter[4] = {static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), 0, 0};
  uint32_t words[4];
  philox_words(key, counter, words);
  const auto scale = static_cast<float>(init.scale);
  if (init.kind == Init::kUniform) {
    for (int i = 0; i < kGroup; ++i) out[i] = scale * (2.0F * unit(words[i]) - 1.0F);
    return;
  }
  for (int i = 0; i < kGroup; i += 2) {  // Box-Muller
    const float radius = scale * std::sqrt(-2.0F * std::log(unit(words[i])));
    const float angle = 2.0F * std::numbers::pi_v<float> * unit(words[i + 1]);
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
}

}  // namespace

void draw(const Parameter& parameter, uint64_t seed, int64_t begin, int64_t end, float* out) {
  if (parameter.init.kind == Init::kConstant) {
    std::fill(out, out + (end - begin), static_cast<float>(parameter.init.scale));
    return;
  }
  const PhiloxKey key = philox_key(seed, "init " + parameter.name);
  parallel_for(begin / kGroup, (end + kGroup - 1) / kGroup, 4096, [&](int64_t first, int64_t last) {
    float values[kGroup];
    for (int64_t group = first; group < last; ++group) {
      draw_group(parameter.init, key, group, values);
      for (int64_t i = 0; i < kGroup; ++i) {
        const int64_t element = group * kGroup + i;
        if (element >= begin && element < end) out[element - begin] = values[i];
      }
    }
  });
}

}  // namespace trainer::nn
