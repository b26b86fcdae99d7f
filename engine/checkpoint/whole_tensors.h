// The tensors of a checkpoint, assembled from the shards that its ranks wrote.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "engine/checkpoint/manifest.h"
#include "engine/tensorfile/safetensors_file.h"

namespace trainer::checkpoint {

class WholeTensors {
 public:
  /// Errors: those of read_manifest().
  explicit WholeTensors(std::filesystem::path folder);

  const Manifest& manifest() const { return manifest_; }
  at::ScalarType dtype(const SavedTensor& tensor);
  /// The tensor in its shape, with the saved bits. Errors: InputError when a file isn't a safetensors file.
  at::Tensor read(const SavedTensor& tensor);

 private:
  const tensorfile::SafetensorsFile& opened(const std::string& name);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<tensorfile::SafetensorsFile>> files_;
};

}  // namespace trainer::checkpoint
