// Which family builds a model: by `model_type` of config.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model.h"

namespace trainer::models {

/// Builds the model that config.json's text describes, without values. `origin` names the text in messages.
/// `strict`: unknown keys are errors (for a configuration written by hand), else ignored.
/// Throws InputError (ConfigError when strict) for a family or a value it does not know.
struct BuildRequest {
  std::string config_json, origin;
  bool head_is_separate = false;  // the weights hold an output head of their own, different from the embedding
  bool strict = false;
  Task task = Task::kSeq2SeqLm;
  std::vector<std::string> labels{};  // classification: names of the classes; empty: those of the configuration
};
std::unique_ptr<Model> build_model(const BuildRequest& request);

/// The families this build knows, for messages.
std::vector<std::string> model_types();

/// What a family trains for, the usual task first; none for a family this build doesn't know.
std::vector<Task> tasks_of(const std::string& model_type);

/// "causal_lm", as in data.task.
const char* name_of(Task task);

}  // namespace trainer::models
