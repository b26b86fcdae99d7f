// Finds the family that builds a model, by config.json's `model_type`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model.h"

namespace trainer::models {

/// Builds the model that config.json's text describes, without values. `origin` names the text in messages.
/// `strict`: unknown keys are errors (for a configuration written by hand), else they are ignored.
/// Throws InputError (ConfigError when strict) for an unknown family or an invalid value.
struct BuildRequest {
  std::string config_json, origin;
  bool head_is_separate = false;  // the checkpoint has an output head separate from the embedding
  bool strict = false;
  Task task = Task::kSeq2SeqLm;
  std::vector<std::string> labels{};  // classification: class names; empty: those of config.json
};
std::unique_ptr<Model> build_model(const BuildRequest& request);

/// A model family: how to build a model of it, and the tasks it can be trained for, the default first.
struct Family {
  std::string model_type;  // of config.json
  std::unique_ptr<Model> (*build)(const BuildRequest& request);
  std::vector<Task> tasks;
};
/// Adds a family; call it before models are built. Errors: ConfigError if the model_type is taken.
void add_family(Family family);

/// The families that this build supports, for messages.
std::vector<std::string> model_types();

/// The tasks of a family, the default first; empty for a family that this build doesn't support.
std::vector<Task> tasks_of(const std::string& model_type);

/// "causal_lm", as in data.task.
const char* name_of(Task task);

}  // namespace trainer::models
