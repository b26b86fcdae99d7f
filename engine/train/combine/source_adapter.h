// An adapter that is to be combined with others.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/adapters/combine.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/train/combine/combine_adapters.h"

namespace trainer::train {

/// The ends of the names of a layer's A and B.
struct Suffixes {
  std::string a, b;
};
/// Layers by their names in the files, "base_model.model.…".
using Layers = std::map<std::string, const Suffixes*>;

/// A LoRA adapter, its file sorted by what the tensors are.
class SourceAdapter {
 public:
  /// Errors: InputError.
  SourceAdapter(const WeightedAdapter& given, const config::LoraConfig& options);

  const std::string& folder() const { return folder_; }
  const config::LoraConfig& options() const { return options_; }
  const config::AdapterBase& base() const { return base_; }
  /// adapter_config.json, and the value of a key in it; null if it is missing.
  const nlohmann::json& json() const { return json_; }
  nlohmann::json value(const char* key) const { return json_.contains(key) ? json_[key] : nlohmann::json(); }
  const tensorfile::SafetensorsFile& file() const { return file_; }

  /// The highest rank of a layer, by adapter_config.json.
  int64_t rank() const;
  /// Layers with an A.
  const Layers& layers() const { return layers_; }
  /// Tensors that replace the base model's.
  const std::vector<std::string>& whole() const { return whole_; }

  at::Tensor fp32(const std::string& name) const { return file_.tensor(name).to(at::kFloat); }
  adapters::WeightedPair pair(const std::string& layer) const;
  const std::vector<int64_t>& shape_of_a(const std::string& layer) const;
  const std::vector<int64_t>& shape_of_b(const std::string& layer) const;

 private:
  void sort(const std::string& name);

  std::string folder_;
  double weight_;
  config::LoraConfig options_;
  config::AdapterBase base_;
  nlohmann::json json_;
  tensorfile::SafetensorsFile file_;
  Layers layers_;
  std::vector<std::string> whole_;
};

using SourceAdapters = std::vector<std::unique_ptr<SourceAdapter>>;

/// Errors, with all problems: InputError when one can't be read; ConfigError when one isn't LoRA.
SourceAdapters open_adapters(const std::vector<WeightedAdapter>& given);

/// The layers that some adapter changes.
Layers all_layers(const SourceAdapters& adapters);
/// A layer's path as target_modules and rank_pattern mean it.
std::string layer_path(const std::string& layer);

}  // namespace trainer::train
