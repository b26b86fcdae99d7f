#include "engine/gguf/export_model.h"

#include <functional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/listed.h"
#include "engine/gguf/family.h"
#include "engine/gguf/general.h"
#include "engine/gguf/gguf_writer.h"
#include "engine/gguf/hyperparameters.h"
#include "engine/gguf/vocabulary.h"

namespace trainer::gguf {
namespace fs = std::filesystem;
namespace {

/// The tensors of a file and how to make each.
class Plan {
 public:
  Plan(models::Model& model, const parallel::WeightSource& source, const Family& family, TensorType type)
      : source_(source), family_(family), type_(type), config_(bounded_json(model.config_json())) {
    if (const auto factors = rope_factors(config_))
      add("rope_freqs.weight", factors->sizes().vec(), [factors] { return *factors; });
    for (const nn::ParameterPtr& p : model.all_parameters()) add(p);
  }

  const nlohmann::json& config() const { return config_; }
  const std::vector<TensorSpec>& specs() const { return specs_; }
  at::Tensor make(size_t index) const { return makers_[index](); }
  int64_t parameters() const { return parameters_; }
  /// Matrices that are stored as f16, because their rows don't fit the type.
  int64_t fallbacks() const { return fallbacks_; }

 private:
  void add(const nn::ParameterPtr& p) {
    const std::string name = tensor_name(family_, p->name);
    const bool turned = stored_as_in_out(p->name);
    std::vector<int64_t> shape = p->shape;
    if (turned) std::swap(shape[0], shape[1]);
    add(name, shape, [this, p, turned] {
      at::Tensor values = at::empty(p->shape, at::kFloat);
      source_.read(*p, 0, values.numel(), values.view(-1));
      if (turned) values = values.t();
      if (family_.norms_add_one && p->name.ends_with("norm.weight")) values = values + 1;
      return rows_for_rope(family_, config_, p->name, values);
    });
  }

  void add(const std::string& name, const std::vector<int64_t>& shape, std::function<at::Tensor()> make) {
    const TensorType type = type_of(name, shape, type_);
    fallbacks_ += type_ == TensorType::kQ8_0 && type == TensorType::kF16 ? 1 : 0;
    specs_.push_back({name, type, shape});
    makers_.push_back(std::move(make));
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    parameters_ += count;
  }

  /// GPT-2 stores the matrices of its blocks [in, out].
  bool stored_as_in_out(const std::string& name) const {
    if (family_.names != Family::Names::kGpt2) return false;
    return name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") || name.ends_with(".c_fc.weight");
  }

  const parallel::WeightSource& source_;
  const Family& family_;
  TensorType type_;
  nlohmann::json config_;
  std::vector<TensorSpec> specs_;
  std::vector<std::function<at::Tensor()>> makers_;
  int64_t parameters_ = 0, fallbacks_ = 0;
};

void append(Metadata& metadata, Metadata more) {
  for (auto& entry : more) metadata.push_back(std::move(entry));
}

}  // namespace

TensorType type_of(const std::string& name, const std::vector<int64_t>& shape, TensorType type) {
  if (shape.size() < 2 || name.ends_with("_norm.weight") || name == "position_embd.weight") return TensorType::kF32;
  return type == TensorType::kQ8_0 && shape.back() % kBlock != 0 ? TensorType::kF16 : type;
}

Exported export_model(models::Model& model, const parallel::WeightSource& source, const Origin& origin,
                      const fs::path& file, TensorType type) {
  const at::NoGradGuard no_grad;
  const Family& family = family_of(model);
  const Plan plan(model, source, family, type);
  Exported exported{static_cast<int64_t>(plan.specs().size()), check_supported(family, plan.config())};
  if (plan.fallbacks() > 0)
    exported.warnings.push_back(fmt::format("{} stored as f16: q8_0 needs rows that are multiples of {}",
                                            counted(plan.fallbacks(), "matrix is", "matrices are"), kBlock));
  Metadata metadata = general(family.architecture, "model", origin.name);
  metadata.emplace_back("general.size_label", size_label(plan.parameters()));
  append(metadata, sampling(origin.folder));
  append(metadata, hyperparameters(family, plan.config()));
  metadata.emplace_back("general.file_type", file_type(type));
  append(metadata, vocabulary(origin.folder, model.vocabulary()));
  const fs::path growing = file.parent_path() / ("." + file.filename().string() + ".partial");
  GgufWriter writer(growing, metadata, plan.specs());
  for (size_t i = 0; writer.next() != nullptr; ++i) writer.write(plan.make(i));
  writer.finish();
  publish_written(growing, file);
  return exported;
}

}  // namespace trainer::gguf
