#include "engine/train/combine/source_adapter.h"

#include <algorithm>
#include <array>

#include "engine/adapters/layers.h"
#include "engine/adapters/lora.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/first_problems.h"

namespace trainer::train {
namespace {

const std::array<Suffixes, 2> kSuffixes{
    {{".lora_A.weight", ".lora_B.weight"}, {".lora_embedding_A", ".lora_embedding_B"}}};

/// Without line breaks.
std::string in_one_line(std::string text) {
  for (size_t at = 0; (at = text.find("\n ", at)) != std::string::npos;) text.erase(at, 2);
  return text;
}

}  // namespace

SourceAdapter::SourceAdapter(const WeightedAdapter& given, const config::LoraConfig& options)
    : folder_(given.folder.string()),
      weight_(given.weight),
      options_(options),
      base_(config::read_adapter_base(folder_)),
      json_(bounded_json(read_file(config::adapter_config_file(folder_)))),
      file_(given.folder / "adapter_model.safetensors") {
  for (const std::string& name : file_.names()) sort(name);
}

int64_t SourceAdapter::rank() const {
  int64_t highest = options_.r;
  for (const auto& [pattern, r] : options_.rank_pattern) highest = std::max(highest, r);
  return highest;
}

adapters::WeightedPair SourceAdapter::pair(const std::string& layer) const {
  const Suffixes& suffixes = *layers_.at(layer);
  const double scale = adapters::lora_shape(options_, layer_path(layer)).scale;
  return {{fp32(layer + suffixes.a), fp32(layer + suffixes.b)}, weight_, scale};
}

const std::vector<int64_t>& SourceAdapter::shape_of_a(const std::string& layer) const {
  return file_.info(layer + layers_.at(layer)->a).shape;
}

const std::vector<int64_t>& SourceAdapter::shape_of_b(const std::string& layer) const {
  return file_.info(layer + layers_.at(layer)->b).shape;
}

void SourceAdapter::sort(const std::string& name) {
  for (const Suffixes& suffixes : kSuffixes) {
    if (name.ends_with(suffixes.a)) layers_[name.substr(0, name.size() - suffixes.a.size())] = &suffixes;
    if (name.ends_with(suffixes.a) || name.ends_with(suffixes.b)) return;
  }
  whole_.push_back(name);
}

SourceAdapters open_adapters(const std::vector<WeightedAdapter>& given) {
  SourceAdapters adapters;
  Problems unread, unfit;
  for (const WeightedAdapter& one : given) {
    try {
      const config::LoraConfig options = config::read_adapter_config({.path = one.folder.string()});
      if (options.peft_type == "LORA")
        adapters.push_back(std::make_unique<SourceAdapter>(one, options));
      else
        unfit.push_back(fmt::format("{}: peft_type is {}; only LORA adapters can be combined", one.folder.string(),
                                    options.peft_type));
    } catch (const InputError& error) {
      unread.push_back(in_one_line(error.what()));
    }
  }
  if (!unread.empty()) {
    unread.insert(unread.end(), unfit.begin(), unfit.end());
    throw InputError("these adapters can't be read:{}", first_problems(unread));
  }
  if (!unfit.empty()) throw ConfigError("these adapters can't be combined:{}", first_problems(unfit));
  return adapters;
}

Layers all_layers(const SourceAdapters& adapters) {
  Layers layers;
  for (const auto& adapter : adapters) layers.insert(adapter->layers().begin(), adapter->layers().end());
  return layers;
}

std::string layer_path(const std::string& layer) {
  const std::string& root = adapters::lora_layers().root;
  return layer.starts_with(root) ? layer.substr(root.size()) : layer;
}

}  // namespace trainer::train
