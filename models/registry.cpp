#include "models/registry.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "models/nn/cross_entropy.h"
#include "models/t5/model.h"

namespace trainer::models {
namespace {

struct Family {
  const char* model_type;
  std::unique_ptr<Model> (*build)(const BuildRequest& request);
};

constexpr Family kFamilies[] = {
    {"t5", t5::build},
};

}  // namespace

at::Tensor Model::loss_sum(const Batch& batch, const nn::Pass& pass) {
  return nn::cross_entropy_sum(logits(batch, pass), batch.labels);
}

std::unique_ptr<Model> build_model(const BuildRequest& request) {
  const auto json = nlohmann::json::parse(request.config_json, nullptr, false);
  if (!json.is_object())
    throw InputError("{}: not a JSON object. Expected a Hugging Face config.json.", request.origin);
  const auto type = json.find("model_type");
  const std::string name = type != json.end() && type->is_string() ? type->get<std::string>() : "";
  for (const Family& family : kFamilies)
    if (name == family.model_type) return family.build(request);
  const auto message = fmt::format("{}: model_type is '{}', which this version does not train. Known: {}.",
                                   request.origin, name, fmt::join(model_types(), ", "));
  if (request.strict) throw ConfigError(message);
  throw InputError(message);
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

}  // namespace trainer::models
