// Exports what a run left, or any model or adapter, for other programs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/gguf/tensor_type.h"

namespace trainer::train {

struct ExportRequest {
  std::filesystem::path source;          // the output folder of a run, a checkpoint, a model or adapter folder
  std::string base;                      // of an adapter, as plan_of_adapter takes it
  std::filesystem::path output;          // a folder; a file *.gguf
  std::optional<gguf::TensorType> gguf;  // the type of its matrices; none: Hugging Face's format
  bool merge = false;                    // an adapter into its base model
  std::optional<at::ScalarType> dtype;   // of merged weights
};

struct ExportResult {
  std::string what;                   // "the model runs/t5", for the report
  std::vector<std::string> warnings;  // about differences that the other program can't avoid
};

/// Writes `request.output`, which appears when it is complete. One tensor is in memory at a time. Errors: InputError
/// for a source that is neither; ConfigError when `output` exists, or the format can't hold it; MachineError.
ExportResult export_for_others(const ExportRequest& request);

}  // namespace trainer::train
