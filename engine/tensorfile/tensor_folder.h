// The weights of a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tensorfile/safetensors_file.h"

namespace trainer::tensorfile {

/// All weights of a model folder: `model.safetensors`, or the shards that `model.safetensors.index.json` names. Every
/// file is opened and checked; weights are read only on request.
/// Errors: InputError that says what is missing or broken. Pickled weights (`pytorch_model.bin`) are never read.
class TensorFolder {
 public:
  explicit TensorFolder(const std::filesystem::path& folder);

  /// Whether a folder holds weights, including pickled ones, which are never read. Errors: InputError.
  static bool has_weights(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return folder_; }
  /// Sorted.
  std::vector<std::string> names() const;
  /// The file that holds tensor `name`, or null when there is no such tensor.
  const SafetensorsFile* find(const std::string& name) const;

 private:
  void open_single(const std::filesystem::path& file);
  void open_shards(const std::filesystem::path& index);
  [[noreturn]] void complain_of_no_weights() const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::unordered_map<std::string_view, const SafetensorsFile*>
      files_by_name_;  // by tensor name; the files own the names
};

}  // namespace trainer::tensorfile
