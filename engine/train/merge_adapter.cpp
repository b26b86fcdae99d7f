#include "engine/train/merge_adapter.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "data/tokenizers/tokenizer_files.h"
#include "engine/adapters/merge.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/growing_folder.h"
#include "engine/train/build.h"
#include "engine/train/model_plan.h"
#include "engine/train/parallelism.h"
#include "engine/weights/weight_sources.h"
#include "engine/weights/whole_weights.h"
#include "engine/weights/write_weights.h"
#include "models/registry.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
using tensorfile::TensorSpec;

/// The weights of the merged model.
class MergedWeights {
 public:
  /// Appends to the lists of `result`.
  MergedWeights(const Blueprint& blueprint, std::optional<at::ScalarType> dtype, MergeResult& result)
      : source_(blueprint.source()),
        base_(dynamic_cast<const checkpoint::FolderSource*>(blueprint.sources.front().get())),
        dtype_(dtype),
        merged_(adapters::merged_weights(*blueprint.model, blueprint.lora)) {
    if (base_ == nullptr)
      throw ConfigError("{} is in Megatron's layout.\n  Convert it first: trainer checkpoint export {} FOLDER",
                        result.plan.config.model.path, result.plan.config.model.path);
    const auto all = blueprint.model->all_parameters();
    const auto in_base = [&](const nn::ParameterPtr& p) { return !adapters::is_adapter(p->name) && base_->has(*p); };
    first_ = *std::find_if(all.begin(), all.end(), in_base);
    std::set<std::string> used;
    for (const nn::ParameterPtr& p : all)
      if (!adapters::is_adapter(p->name)) add(p, used, result);
    for (const std::string& name : base_->names())
      if (used.count(name) == 0) result.left_out.push_back(name);
  }

  const std::vector<TensorSpec>& specs() const { return specs_; }
  at::Tensor make(const std::string& name) const { return makers_.at(name)(); }

 private:
  /// A weight that layers share is written once, unless an adapter changed it in some of them only.
  void add(const nn::ParameterPtr& p, std::set<std::string>& used, MergeResult& result) {
    std::vector<std::string> names{p->name}, unmerged;
    names.insert(names.end(), p->aliases.begin(), p->aliases.end());
    for (const std::string& name : names) {
      used.insert(base_->name_in_folder(name));
      const auto change = merged_.find(name);
      if (change == merged_.end())
        unmerged.push_back(name);
      else
        add(name, *p, [this, &change = change->second] { return change([this](const auto& q) { return read(q); }); });
    }
    if (!unmerged.empty()) add(unmerged.front(), *p, [this, p] { return read(*p); });
    if (unmerged.size() < names.size() && names.size() > 1) result.untied.push_back(p->name);
    if (!p->copy_of.empty()) result.untied.push_back(p->name), used.insert(base_->name_in_folder(p->copy_of));
    if (p->trainable) result.replaced.push_back(p->name);
  }

  void add(const std::string& name, const nn::Parameter& p, std::function<at::Tensor()> make) {
    const at::ScalarType dtype = dtype_.value_or(base_->storage(base_->has(p) ? p : *first_).dtype);
    specs_.push_back({name, dtype, p.shape});
    makers_[name] = [make = std::move(make), dtype] { return make().to(dtype); };
  }

  /// In fp32, with the values that the adapter folder has of it.
  at::Tensor read(const nn::Parameter& p) const {
    at::Tensor values = at::empty(p.shape, at::kFloat);
    source_.read(p, 0, values.numel(), values.view(-1));
    return values;
  }

  const parallel::WeightSource& source_;
  const checkpoint::FolderSource* base_;
  nn::ParameterPtr first_;  // a weight that the base model has, whose dtype a new head gets
  std::optional<at::ScalarType> dtype_;
  adapters::DerivedWeights merged_;  // by name
  std::vector<TensorSpec> specs_;
  std::map<std::string, std::function<at::Tensor()>> makers_;
};

/// The base model's config.json with what the merged model changes in it.
json merged_config(const models::Model& model, const MergeRequest& request, const MergeResult& result) {
  json config = bounded_json(read_file(result.plan.config.model.path + "/config.json"));
  const json own = bounded_json(model.config_json());
  for (const char* const key : {"architectures", "id2label", "label2id"})
    if (own.contains(key)) config[key] = own[key];
  if (request.dtype) config[config.contains("torch_dtype") ? "torch_dtype" : "dtype"] = name_of(*request.dtype);
  if (!result.untied.empty()) config["tie_word_embeddings"] = false;
  return config;
}

/// Checks that `config` describes a model with these weights that differs from `model` in the untied head only. Some
/// families can't store every weight apart. Errors: ConfigError.
void check_untied(const json& config, const MergedWeights& weights, const models::Model& model,
                  const MergeResult& result) {
  if (result.untied.empty()) return;
  models::BuildRequest request{.config_json = config.dump(), .origin = "the merged model"};
  request.head_is_separate = true;
  request.task = model.task();
  const auto described = models::build_model(request);
  std::set<std::string> names, written;
  for (const nn::ParameterPtr& p : described->all_parameters()) names.insert(p->name);
  for (const TensorSpec& spec : weights.specs()) written.insert(spec.name);
  json expected = bounded_json(model.config_json());
  expected["tie_word_embeddings"] = false;
  if (names == written && bounded_json(described->config_json()) == expected) return;
  throw ConfigError(
      "{}: the adapter changes {} in some of the layers that share it, and a {} can't store these layers apart.\n  Use "
      "the adapter with its base model.",
      result.plan.config.lora->path, result.untied.front(), model.class_name());
}

/// What a model folder has besides weights: the base model's, but the tokenizer of the adapter if that has its own.
std::map<std::string, fs::path> other_files(const MergeResult& result) {
  const fs::path base = result.plan.config.model.path, adapter = result.plan.config.lora->path;
  const auto tokenizer = data::tokenizer_files_in(adapter);
  std::map<std::string, fs::path> files;
  for (const std::string& name : checkpoint::files_beside(base)) files[name] = base / name;
  if (!tokenizer.empty())
    for (const fs::path& file : data::tokenizer_files_in(base)) files.erase(file.filename());
  for (const fs::path& file : tokenizer) files[file.filename()] = file;
  files.erase("config.json");
  return files;
}

}  // namespace

MergeResult merge_adapter(const MergeRequest& request) {
  const at::NoGradGuard no_grad;
  const AdapterPlan of_adapter = plan_of_adapter(request.adapter, request.base);
  MergeResult result;
  result.plan = of_adapter.plan;
  const Blueprint blueprint = make_blueprint(result.plan, of_adapter.labels);
  result.layers = blueprint.adapted_layers;
  const MergedWeights weights(blueprint, request.dtype, result);
  const json config = merged_config(*blueprint.model, request, result);
  check_untied(config, weights, *blueprint.model, result);
  GrowingFolder folder(request.output);
  for (const auto& [name, file] : other_files(result)) publish_file(folder.path() / name, read_file(file));
  publish_file(folder.path() / "config.json", config.dump(2) + "\n");
  checkpoint::write_weights(folder.path(), weights.specs(), [&](const auto& name) { return weights.make(name); });
  folder.publish();
  return result;
}

}  // namespace trainer::train
