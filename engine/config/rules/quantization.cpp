// Rules about quantized weights.
#include "engine/config/rules/groups.h"

#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

void frozen_base(const Config& config, Judge& judge) {
  if (!config.model.quantization_config.load_in_4bit || config.lora) return;
  judge.refuse("model.quantization_config.load_in_4bit",
               "model.quantization_config.load_in_4bit is true, but without lora all weights are trained, and 4-bit "
               "weights can't be: add a lora section, or leave load_in_4bit out");
}

const char* compute_dtype(MixedPrecision precision) {
  if (precision == MixedPrecision::kBf16) return "bfloat16";
  return precision == MixedPrecision::kFp16 ? "float16" : "float32";
}

void computes_as_the_run(const Config& config, Judge& judge) {
  const QuantizationConfig& q = config.model.quantization_config;
  const std::string computes = compute_dtype(config.mixed_precision);
  if (!q.load_in_4bit || q.bnb_4bit_compute_dtype.empty() || q.bnb_4bit_compute_dtype == computes) return;
  judge.refuse("model.quantization_config.bnb_4bit_compute_dtype",
               "model.quantization_config.bnb_4bit_compute_dtype is {}, but linear layers compute in {}, because "
               "mixed_precision is '{}': set mixed_precision to {}, or leave bnb_4bit_compute_dtype out",
               q.bnb_4bit_compute_dtype, computes, name_of(config.mixed_precision),
               q.bnb_4bit_compute_dtype == "bfloat16"  ? "bf16"
               : q.bnb_4bit_compute_dtype == "float16" ? "fp16"
                                                       : "'no'");
}

}  // namespace

std::vector<Rule> rules_of_quantization() {
  return {
      {"quantized-is-frozen", "Quantized weights can't be trained, so they need adapters.", frozen_base},
      {"quantized-computes-as-run", "Quantized layers compute in the dtype of mixed_precision.", computes_as_the_run},
  };
}

}  // namespace trainer::config
