// Frozen weights in 4 bits.
#pragma once

#include "engine/config/sections/model.h"
#include "models/model.h"
#include "models/nn/storage.h"

namespace trainer::train {

/// The format of frozen matrices; null: they aren't quantized.
const nn::PackedFormat* packed_format(const config::QuantizationConfig& options);

/// Marks the layers that aren't quantized: those of llm_int8_skip_modules, by default the output head, and those that
/// transformers keeps in fp32 (T5's wo). Call it before adapters are added.
/// Errors: ConfigError for a name that matches no layer.
void skip_layers(models::Model& model, const config::QuantizationConfig& options);

}  // namespace trainer::train
