#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/tensorfile/safetensors_writer.h"

namespace trainer::checkpoint {

/// Writes the weights of a model to `folder`/model.safetensors, which appears when it is complete; `read` returns the
/// tensor with a name. One tensor is in memory at a time. Errors: MachineError.
void write_weights(const std::filesystem::path& folder, const std::vector<tensorfile::TensorSpec>& specs,
                   const std::function<at::Tensor(const std::string& name)>& read);

}  // namespace trainer::checkpoint
