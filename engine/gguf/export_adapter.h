// Writes a LoRA adapter as a GGUF file, which llama.cpp applies to a base model (--lora).
#pragma once

#include <filesystem>

#include "engine/config/sections/adapters.h"
#include "engine/gguf/export_model.h"

namespace trainer::gguf {

/// Writes the LoRA matrices of `model`, whose values `source` has, to `file`, which appears when it is complete.
/// llama.cpp scales each product by lora_alpha / r; where PEFT has another scale (rsLoRA, alpha_pattern), B is scaled
/// instead. `name`: for the file's title. Errors: ConfigError when the adapter changes more than such matrices can
/// (DoRA, PiSSA, trained biases or heads, other kinds), or llama.cpp doesn't support the model; MachineError.
Exported export_adapter(models::Model& model, const parallel::WeightSource& source, const config::LoraConfig& options,
                        const std::string& name, const std::filesystem::path& file, TensorType type);

}  // namespace trainer::gguf
