#include "tests/support/golden_case.h"

#include <filesystem>
#include <fstream>

#include <ATen/ops/empty.h>

#include "engine/config/plan/adapter_folder.h"
#include "engine/train/build.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

std::string folder_of(const std::string& name) {
  return source_dir() + "/tests/golden/t5/" + name;
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

}  // namespace

GoldenCase::GoldenCase(const std::string& name)
    : expected(read_json(folder_of(name) + "/expected.json")), tensors(folder_of(name) + "/expected.safetensors") {
  const std::string base = name.substr(0, name.find('/'));
  plan.source = "golden " + name;
  plan.config.num_processes = 1;
  plan.config.model.path = folder_of(base);
  if (base != name) plan.config.lora = config::read_adapter_config({.path = folder_of(name)});
  const nlohmann::json file = read_json(folder_of(base) + "/batches.json");
  for (const auto& batch : file["batches"]) {
    std::vector<std::vector<int64_t>> sources, labels;
    for (const auto& sample : batch["samples"]) sources.push_back(sample["source"]), labels.push_back(sample["labels"]);
    batches.push_back(make_batch(sources, labels));
  }
}

std::string GoldenCase::gradient_name(const std::string& parameter) const {
  return (lora() ? "gradient.base_model.model." : "gradient.") + parameter;
}

models::Batch make_batch(const std::vector<std::vector<int64_t>>& sources,
                         const std::vector<std::vector<int64_t>>& labels, int64_t first) {
  auto source = std::make_shared<nn::Layout>(), target = std::make_shared<nn::Layout>();
  for (size_t i = 0; i < sources.size(); ++i) {
    source->append(static_cast<int64_t>(sources[i].size()), first + static_cast<int64_t>(i));
    target->append(static_cast<int64_t>(labels[i].size()), first + static_cast<int64_t>(i));
  }
  models::Batch batch{at::empty({source->tokens()}, at::kLong), at::empty({target->tokens()}, at::kLong), source,
                      target, 0};
  auto *to_source = batch.source_ids.data_ptr<int64_t>(), *to_label = batch.labels.data_ptr<int64_t>();
  for (size_t i = 0; i < sources.size(); ++i) {
    to_source = std::copy(sources[i].begin(), sources[i].end(), to_source);
    to_label = std::copy(labels[i].begin(), labels[i].end(), to_label);
    batch.target_tokens += std::count_if(labels[i].begin(), labels[i].end(), [](int64_t label) { return label >= 0; });
  }
  return batch;
}

std::unique_ptr<parallel::ParallelModel> make_model(const config::Plan& given, dist::Comm& comm) {
  config::Plan plan = given;
  plan.config.num_processes = comm.size();
  train::Blueprint blueprint = train::make_blueprint(plan);
  return train::make_parallel(plan, blueprint, comm);
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.to(at::kDouble), y = b.to(at::kDouble);
  return ((x - y).norm() / y.norm()).item<double>();
}

}  // namespace trainer::testing
