// The sections `model` and `tokenizer`.
#pragma once

#include <string>
#include <vector>

namespace trainer::config {

/// `model.quantization_config`: transformers' BitsAndBytesConfig, same names and defaults.
struct QuantizationConfig {
  bool load_in_4bit = false;
  std::string bnb_4bit_quant_type = "fp4";  // nf4 | fp4
  bool bnb_4bit_use_double_quant = false;
  std::string bnb_4bit_compute_dtype;              // "": that of mixed_precision
  std::vector<std::string> llm_int8_skip_modules;  // empty: the output head
};

/// `model`: a Hugging Face folder, or config.json's keys in place.
struct ModelConfig {
  std::string path;    // folder with config.json and weights
  std::string config;  // JSON text of `model.config`; "" when `path` is given
  std::string dtype = "auto";
  QuantizationConfig quantization_config;
};

/// `tokenizer`: where the tokenizer files are.
struct TokenizerConfig {
  std::string path;  // folder or spiece.model; "" means model.path
};

}  // namespace trainer::config
