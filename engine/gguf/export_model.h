// Writes a model as a GGUF file, which llama.cpp and programs built on it run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/gguf/tensor_type.h"
#include "engine/parallel/weight_source.h"
#include "models/model.h"

namespace trainer::gguf {

struct Exported {
  int64_t tensors = 0;
  std::vector<std::string> warnings;
};

/// Where a model comes from.
struct Origin {
  std::filesystem::path folder;  // with its tokenizer
  std::string name;              // of which its title is made
};

/// Writes `model`, whose values `source` has, to `file`, which appears when it is
/// complete. Matrices are stored as `type`; vectors, norms and positions as f32, and matrices whose rows Q8_0 can't
/// divide into blocks as f16. One tensor is in memory at a time. Errors: ConfigError for a model or tokenizer that
/// llama.cpp can't run; those of vocabulary() and encode(); MachineError.
Exported export_model(models::Model& model, const parallel::WeightSource& source, const Origin& origin,
                      const std::filesystem::path& file, TensorType type);

/// The type of a tensor in a file of matrices of `type`.
TensorType type_of(const std::string& name, const std::vector<int64_t>& shape, TensorType type);

}  // namespace trainer::gguf
