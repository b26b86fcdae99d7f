#include "engine/train/quantization.h"

#include "engine/adapters/pattern.h"
#include "engine/base/errors.h"
#include "models/nn/four_bit.h"
#include "models/nn/linear.h"

namespace trainer::train {
namespace {

constexpr const char* kSkip = "model.quantization_config.llm_int8_skip_modules";

/// transformers' should_convert_module: `name` begins with a match of the expression, or ends with its text.
bool skips(const std::string& entry, const std::string& name) {
  return name.ends_with(entry) || adapters::matches_whole(name, "(?:" + entry + ").*", kSkip);
}

}  // namespace

const nn::PackedFormat* packed_format(const config::QuantizationConfig& options) {
  if (!options.load_in_4bit) return nullptr;
  const auto bits = options.bnb_4bit_quant_type == "nf4" ? nn::FourBits::kNf4 : nn::FourBits::kFp4;
  return &nn::four_bits(bits, options.bnb_4bit_use_double_quant);
}

void skip_layers(models::Model& model, const config::QuantizationConfig& options) {
  if (!options.load_in_4bit) return;
  const bool given = !options.llm_int8_skip_modules.empty();
  const std::vector<std::string> entries =
      given ? options.llm_int8_skip_modules : std::vector<std::string>{model.output_head()};
  std::vector<bool> used(entries.size(), !given);
  model.visit([&](nn::Module& module) {
    if (module.path().empty()) return;
    auto* const linear = dynamic_cast<nn::Linear*>(&module);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!skips(entries[i], module.path())) continue;
      used[i] = true;
      if (linear != nullptr) linear->weight()->may_pack = false;
    }
    if (linear != nullptr && linear->weight()->fp32_under_fp16) linear->weight()->may_pack = false;
  });
  for (size_t i = 0; i < entries.size(); ++i)
    if (!used[i])
      throw ConfigError("{}: {} matches no layer of {}, so it would be quantized: correct it or leave it out", kSkip,
                        entries[i], model.class_name());
}

}  // namespace trainer::train
