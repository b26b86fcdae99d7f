// Model folders of other programs: without the base model's prefix, with old names of norms, without a head.
#include "engine/weights/weight_sources.h"

#include <map>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "engine/base/errors.h"
#include "engine/tensorfile/safetensors_writer.h"
#include "models/registry.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using models::Task;

constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 7, "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 3, "tie_word_embeddings": true})";
constexpr const char* kBert = R"({"model_type": "bert", "vocab_size": 7, "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 3})";

std::unique_ptr<models::Model> build(const char* config, Task task) {
  return models::build_model({.config_json = config, .origin = "config.json", .task = task});
}

/// A folder with the weights of `model` under the names that `rename` returns ("": omitted); tensor i is filled with
/// i + 1.
class Folder {
 public:
  template <class F>
  Folder(models::Model& model, const F& rename) {
    std::vector<tensorfile::TensorSpec> specs;
    for (const nn::ParameterPtr& p : model.all_parameters())
      if (const std::string name = rename(p->name); !name.empty()) {
        specs.push_back({name, at::kFloat, p->shape});
        value_[name] = static_cast<double>(specs.size());
      }
    tensorfile::SafetensorsWriter writer(folder_.path() / "model.safetensors", specs);
    for (const auto& tensor : writer.order()) writer.write(tensor.name, at::full(tensor.shape, value_[tensor.name]));
    writer.finish();
  }
  std::string path() const { return folder_.path().string(); }
  double value(const std::string& name) const { return value_.at(name); }

 private:
  TemporaryFolder folder_;
  std::map<std::string, double> value_;
};

double first_number(const parallel::WeightSource& source, const nn::Parameter& parameter) {
  const at::Tensor out = at::empty({1}, at::kFloat);
  source.read(parameter, 0, 1, out);
  return out.item<double>();
}

nn::Parameter& parameter(models::Model& model, const std::string& name) {
  for (const nn::ParameterPtr& p : model.all_parameters())
    if (p->name == name) return *p;
  throw InternalError("no {}", name);
}

TEST(FolderSource, AcceptsNamesWithoutTheBaseModelsPrefix) {
  const auto model = build(kLlama, Task::kSequenceClassification);
  const Folder folder(*model, [](const std::string& name) {
    return name.starts_with("model.") ? name.substr(6) : "";  // a base model: it has no head
  });
  const checkpoint::FolderSource source(folder.path(), model->base_prefix(), /*seed=*/1);
  EXPECT_EQ(source.check(*model), std::vector<std::string>{"score.weight"});
  EXPECT_EQ(first_number(source, parameter(*model, "model.norm.weight")), folder.value("norm.weight"));
}

TEST(FolderSource, InitializesAMissingHeadFromTheSeed) {
  const auto model = build(kLlama, Task::kSequenceClassification);
  const Folder folder(*model, [](const std::string& name) { return name == "score.weight" ? "" : name; });
  const checkpoint::FolderSource source(folder.path(), "model.", /*seed=*/1), other(folder.path(), "model.", 2);
  const checkpoint::SeedSource seed(1);
  const nn::Parameter& score = parameter(*model, "score.weight");
  EXPECT_EQ(first_number(source, score), first_number(seed, score));
  EXPECT_NE(first_number(source, score), first_number(other, score));
  EXPECT_EQ(source.storage(score).dtype, at::kFloat);
}

TEST(FolderSource, RefusesOtherMissingWeights) {
  const auto model = build(kLlama, Task::kSequenceClassification);
  const Folder folder(*model, [](const std::string& name) { return name == "model.norm.weight" ? "" : name; });
  EXPECT_THROW(checkpoint::FolderSource(folder.path(), "model.", 1).check(*model), InputError);
}

TEST(FolderSource, AcceptsOldNamesOfNorms) {
  const auto model = build(kBert, Task::kSequenceClassification);
  const Folder folder(*model, [](std::string name) {
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
    return name;
  });
  const checkpoint::FolderSource source(folder.path(), model->base_prefix(), 1);
  EXPECT_TRUE(source.check(*model).empty());
  EXPECT_EQ(first_number(source, parameter(*model, "bert.embeddings.LayerNorm.bias")),
            folder.value("bert.embeddings.LayerNorm.beta"));
}

TEST(FolderSource, AHeadWithDifferentValuesIsNotTied) {
  const auto tied = build(kLlama, Task::kCausalLm);
  const auto same = [](const std::string& name) { return name; };
  const Folder without(*tied, same);
  EXPECT_FALSE(checkpoint::FolderSource(without.path(), "model.", 1).head_is_separate(*tied));
  const auto both = models::build_model(
      {.config_json = kLlama, .origin = "config.json", .head_is_separate = true, .task = Task::kCausalLm});
  const Folder with(*both, same);
  EXPECT_TRUE(checkpoint::FolderSource(with.path(), "model.", 1).head_is_separate(*tied));
}

}  // namespace
}  // namespace trainer::testing
