// transformers' BitsAndBytesConfig.
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

bool packs(const Config& config) {
  return config.model.quantization_config.load_in_4bit;
}

}  // namespace

const Entries& quantization_table() {
  using C = QuantizationConfig;
  const char* const condition = "model.quantization_config.load_in_4bit is true";
  const char* const of_8_bits = "it is for 8-bit weights, which this version does not have";
  static const Entries entries = table<C>(
      option("load_in_4bit", &C::load_in_4bit)
          .help("Stores the frozen matrices of linear layers in 4 bits, in blocks of 64 values; embeddings, norms, "
                "biases and the output head are stored as model.dtype says."),
      option("bnb_4bit_quant_type", &C::bnb_4bit_quant_type)
          .help("nf4: quantiles of the normal distribution, the better choice for most models. fp4: 4-bit floats.")
          .one_of({"fp4", "nf4"})
          .when(condition, packs),
      option("bnb_4bit_use_double_quant", &C::bnb_4bit_use_double_quant)
          .help("Also stores the scale of each block in 8 bits: 4.13 instead of 4.5 bits per value.")
          .when(condition, packs),
      option("bnb_4bit_compute_dtype", &C::bnb_4bit_compute_dtype)
          .help("The dtype in which these layers compute. mixed_precision sets it for all linear layers; a different "
                "one is an error. Empty: that of mixed_precision.")
          .one_of({"", "float32", "bfloat16", "float16"})
          .when(condition, packs),
      option("llm_int8_skip_modules", &C::llm_int8_skip_modules)
          .help("Layers that are not quantized, by the beginning (a regular expression) or the end of their names. "
                "Empty: the output head. With transformers, a list replaces this default, so name the head too. T5's "
                "wo is never quantized.")
          .when(condition, packs),
      no_effect("bnb_4bit_quant_storage",
                "blocks are stored as bytes, and FSDP shards begin at blocks, so no float dtype is needed")
          .one_of({"uint8", "int8", "float16", "bfloat16", "float32", "float64"})
          .harmless({"uint8"}),
      unsupported("load_in_8bit", "use load_in_4bit, or model.dtype: bfloat16").of<bool>(),
      no_effect("llm_int8_threshold", of_8_bits).of<double>().harmless({"6.0"}),
      no_effect("llm_int8_enable_fp32_cpu_offload", of_8_bits).of<bool>(),
      no_effect("llm_int8_has_fp16_weight", of_8_bits).of<bool>(),
      no_effect("quant_method", "bitsandbytes' formats are the only ones")
          .one_of({"bitsandbytes"})
          .harmless({"bitsandbytes"}),
      no_effect("_load_in_4bit", "the key is load_in_4bit").of<bool>().harmless({"true", "false"}),
      no_effect("_load_in_8bit", "a record of transformers' own").of<bool>().harmless({"true", "false"}));
  return entries;
}

}  // namespace trainer::config
