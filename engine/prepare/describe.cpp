#include "engine/prepare/describe.h"

#include <nlohmann/json.hpp>

#include "data/chat/built_in_templates.h"
#include "data/samples/describe_source.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/base/errors.h"
#include "engine/config/names.h"
#include "engine/prepare/inputs.h"
#include "engine/prepare/show_samples.h"

namespace trainer::prepare {
namespace {

using Json = nlohmann::ordered_json;

/// The result of `describe`, or its error, as JSON.
template <class Describe>
std::string described(Describe describe) {
  Json description;
  try {
    description = describe();
  } catch (const Error& error) {
    if (error.code() == kInternalFailure) throw;
    description = {{"error", error.what()}};
  }
  return description.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string describe_data(const config::Plan& plan) {
  return described([&]() -> Json {
    const data::SourceDescription found = data::describe_source(plan.config.data);
    return {{"format", config::name_of(found.format)},
            {"by_ending", found.by_ending},
            {"delimiter", found.delimiter},
            {"encoding", found.encoding},
            {"columns", found.columns},
            {"names", found.names},
            {"dialogue", config::name_of(found.dialogue)},
            {"messages", found.messages},
            {"labels", found.labels},
            {"features", found.features},
            {"classes", found.classes}};
  });
}

std::string describe_samples(const config::Plan& plan) {
  constexpr int64_t kShown = 3;
  return described([&]() -> Json { return {{"samples", sample_excerpts(load_inputs(plan, {}), kShown)}}; });
}

std::string describe_tokenizer(const config::Plan& plan) {
  return described([&]() -> Json {
    const auto tokenizer = data::open_tokenizer(plan.config.tokenizer, plan.config.model.path);
    return {{"size", tokenizer->size()},
            {"chat_template", tokenizer->chat_template() != nullptr},
            {"templates", data::built_in_template_names()}};
  });
}

}  // namespace trainer::prepare
