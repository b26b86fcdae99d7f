#include "tests/models/family_case.h"
#include "tests/support/source_dir.h"

#include <fstream>
#include <sstream>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>

namespace trainer::testing {
namespace {

std::string path_of(const std::string& name) {
  return source_dir() + "/tests/golden/" + name;
}

at::Tensor to_tensor(const std::vector<int64_t>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

}  // namespace

std::string golden_text(const std::string& path) {
  const std::ifstream in(path_of(path));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

FamilyCase::FamilyCase(const std::string& name, models::Task task)
    : task(task),
      config(nlohmann::json::parse(golden_text(name + "/config.json"))),
      batch(nlohmann::json::parse(golden_text(name + "/batch.json"))),
      expected(nlohmann::json::parse(golden_text(name + "/expected.json"))),
      weights(path_of(name)),
      tensors(path_of(name + "/expected.safetensors")) {}

std::unique_ptr<models::Model> FamilyCase::build(const nlohmann::json& config) const {
  auto model = models::build_model({.config_json = config.dump(), .origin = "golden", .task = task});
  for (const nn::ParameterPtr& p : model->all_parameters())
    p->value = weights.find(p->name)
                   ->tensor(p->name)
                   .to(at::kFloat, /*non_blocking=*/false, /*copy=*/true)
                   .set_requires_grad(true);
  return model;
}

models::Batch FamilyCase::samples(size_t first, size_t last) const {
  auto source = std::make_shared<nn::Layout>(), target = std::make_shared<nn::Layout>();
  std::vector<int64_t> ids, labels;
  for (size_t i = first; i < last; ++i) {
    const auto read = batch["samples"][i]["source"].get<std::vector<int64_t>>(),
               wanted = batch["samples"][i]["labels"].get<std::vector<int64_t>>();
    ids.insert(ids.end(), read.begin(), read.end());
    labels.insert(labels.end(), wanted.begin(), wanted.end());
    source->append(static_cast<int64_t>(read.size()), static_cast<int64_t>(i));
    target->append(static_cast<int64_t>(wanted.size()), static_cast<int64_t>(i));
  }
  const auto count = std::count_if(labels.begin(), labels.end(), [](int64_t label) { return label != -100; });
  const bool causal = task == models::Task::kCausalLm;
  return {to_tensor(ids), to_tensor(labels), source, causal ? source : target, count, {}};
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.to(at::kDouble), y = b.to(at::kDouble);
  return ((x - y).norm() / y.norm()).item<double>();
}

}  // namespace trainer::testing
