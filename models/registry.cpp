#include "models/registry.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "models/bert/model.h"
#include "models/gemma/model.h"
#include "models/gpt2/model.h"
#include "models/llama/model.h"
#include "models/mistral/model.h"
#include "models/mlp/model.h"
#include "models/nn/cross_entropy.h"
#include "models/nn/linear_cross_entropy.h"
#include "models/qwen2/model.h"
#include "models/qwen3/model.h"
#include "models/smollm3/model.h"
#include "models/t5/model.h"

namespace trainer::models {
namespace {

std::vector<Family>& families() {
  using enum Task;
  static std::vector<Family> all{
      {"bert", bert::build, {kSequenceClassification}},
      {"gemma", gemma::build<gemma::Generation::k1>, {kCausalLm, kSequenceClassification}},
      {"gemma2", gemma::build<gemma::Generation::k2>, {kCausalLm, kSequenceClassification}},
      {"gemma3_text", gemma::build<gemma::Generation::k3>, {kCausalLm, kSequenceClassification}},
      {"gpt2", gpt2::build, {kCausalLm, kSequenceClassification}},
      {"mlp", mlp::build, {kImageClassification}},
      {"t5", t5::build, {kSeq2SeqLm}},
      {"llama", llama::build, {kCausalLm, kSequenceClassification}},
      {"mistral", mistral::build, {kCausalLm, kSequenceClassification}},
      {"qwen2", qwen2::build, {kCausalLm, kSequenceClassification}},
      {"qwen3", qwen3::build, {kCausalLm, kSequenceClassification}},
      {"smollm3", smollm3::build, {kCausalLm, kSequenceClassification}},
  };
  return all;
}

std::unique_ptr<Model> build_family(const Family& family, const BuildRequest& request) {
  if (std::find(family.tasks.begin(), family.tasks.end(), request.task) != family.tasks.end())
    return family.build(request);
  std::vector<const char*> can;
  for (const Task task : family.tasks) can.push_back(name_of(task));
  throw ConfigError("data.task is {}, but {} is a {} model, which supports {} only.", name_of(request.task),
                    request.origin, family.model_type, fmt::join(can, " or "));
}

}  // namespace

at::Tensor Model::loss_sum(const Batch& batch, const nn::Pass& pass) {
  return loss_of(logits(batch, pass), batch.labels, pass);
}

at::Tensor Model::loss_of(const at::Tensor& logits, const at::Tensor& labels, const nn::Pass& pass) const {
  return nn::cross_entropy_sum(logits, labels, pass.label_smoothing, shared_.group ? &shared_ : nullptr);
}

nn::Rows Model::head_loss(nn::Linear& head, const nn::Rows& hidden, const at::Tensor& labels, const nn::Pass& pass,
                          double soft_cap) const {
  return {nn::linear_cross_entropy_sum(head, hidden, labels, pass, {soft_cap, shared_.group ? &shared_ : nullptr})};
}

nn::Rows Model::begin_decoding(const Batch&, const nn::Pass&) {
  throw InternalError("{} does not generate text", class_name());
}

at::Tensor Model::decode(const at::Tensor&, const nn::Pass&) {
  throw InternalError("{} does not generate text", class_name());
}

std::unique_ptr<Model> build_model(const BuildRequest& request) {
  const auto json = bounded_json_or_none(request.config_json);
  if (!json.is_object())
    throw InputError("{}: not a JSON object. Expected a Hugging Face config.json.", request.origin);
  const auto type = json.find("model_type");
  const std::string name = type != json.end() && type->is_string() ? type->get<std::string>() : "";
  for (const Family& family : families())
    if (name == family.model_type) return build_family(family, request);
  auto message = fmt::format("{}: model_type is '{}', which this version does not train. Known: {}.", request.origin,
                             name, fmt::join(model_types(), ", "));
  if (json.contains("text_config"))
    message += " The model is multimodal: its text model (text_config) must be in a folder of its own.";
  if (request.strict) throw ConfigError(message);
  throw InputError(message);
}

void add_family(Family family) {
  for (const Family& other : families())
    if (other.model_type == family.model_type)
      throw ConfigError("there is already a model family '{}'.", family.model_type);
  families().push_back(std::move(family));
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.model_type);
  return names;
}

std::vector<Task> tasks_of(const std::string& model_type) {
  for (const Family& family : families())
    if (model_type == family.model_type) return family.tasks;
  return {};
}

const char* name_of(Task task) {
  switch (task) {
    case Task::kCausalLm:
      return "causal_lm";
    case Task::kSeq2SeqLm:
      return "seq2seq_lm";
    case Task::kSequenceClassification:
      return "sequence_classification";
    case Task::kImageClassification:
      return "image_classification";
  }
  return "";
}

}  // namespace trainer::models
