// What llama.cpp must know of a model besides its weights.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "engine/gguf/family.h"
#include "engine/gguf/gguf_writer.h"

namespace trainer::gguf {

/// The metadata "<architecture>.*". `config`: the model's config.json, with every default.
Metadata hyperparameters(const Family& family, const nlohmann::json& config);

/// The frequency factors [head_dim / 2] of LLaMA 3's rotary positions, a tensor of the file; none for other models.
std::optional<at::Tensor> rope_factors(const nlohmann::json& config);

/// Warnings about settings of `config` that make a difference in llama.cpp for long texts only. Errors: ConfigError
/// that lists all settings with which llama.cpp would always compute something else.
std::vector<std::string> check_supported(const Family& family, const nlohmann::json& config);

}  // namespace trainer::gguf
