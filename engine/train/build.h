// Turns a plan into objects.
#pragma once

#include <functional>
#include <memory>

#include "engine/config/plan/plan.h"
#include "engine/dist/comm.h"
#include "engine/parallel/parallel_model.h"
#include "engine/parallel/weight_source.h"
#include "engine/prepare/inputs.h"
#include "models/model.h"

namespace trainer::train {

/// A model without values but with its adapters, and the sources of its values.
struct Blueprint {
  std::unique_ptr<models::Model> model;
  std::vector<std::unique_ptr<parallel::WeightSource>> sources;  // each one wraps the one before it
  config::LoraConfig lora;  // as resolved with an adapter folder; meaningful when the plan has lora
  int64_t adapted_layers = 0;
  bool without_weights = false;                   // the folder has none: see Weights
  std::vector<std::string> started_from_scratch;  // weights that the model's folder lacks, such as those of a new head

  const parallel::WeightSource& source() const { return *sources.back(); }
};

/// Whether the model's folder must hold weights. Its config.json is enough to count their bytes.
enum class Weights { kNeeded, kMayLack };

/// Errors: ConfigError, InputError.
/// `labels`: the class names, when the plan trains a classifier.
Blueprint make_blueprint(const config::Plan& plan, const std::vector<std::string>& labels = {},
                         Weights weights = Weights::kNeeded);

/// Model and inputs, checked against each other. `doing` is called with the current activity.
struct Setup {
  Blueprint blueprint;
  prepare::Inputs inputs;
};
Setup set_up(
    const config::Plan& plan, const std::function<void(const char*)>& doing = [](const char*) {});

/// Checks that the model can process these inputs: its embedding has a row for every id of the tokenizer, no sample has
/// more tokens than the model has positions, images have its size. Errors: ConfigError, InputError with both values.
void check_inputs(const config::Plan& plan, const models::Model& model, const prepare::Inputs& inputs);

/// Tokens of a sample's source that `model` has positions for, not counting a learned prompt; 0: any number.
int64_t most_tokens(const config::Plan& plan, const models::Model& model);

/// The same check when no samples are known, by the configured maximum length; a default length is not checked.
/// Errors: ConfigError with both values.
void check_length_option(const config::Plan& plan, const models::Model& model);

/// Applies training.encoder_cache_mb to a model with its adapters. Returns why it has no effect; "" if it has one,
/// isn't given, or has drawn the configuration's warning.
std::string keep_encoder_output(const config::Plan& plan, models::Model& model);

/// Collective. The parallelized model according to the plan, with its values. `mesh`: of mesh_of(plan), which several
/// models of a rank share.
std::unique_ptr<parallel::ParallelModel> make_parallel(const config::Plan& plan, Blueprint& blueprint,
                                                       dist::MeshPtr mesh);
std::unique_ptr<parallel::ParallelModel> make_parallel(const config::Plan& plan, Blueprint& blueprint,
                                                       dist::Comm& comm);
/// Collective.
dist::MeshPtr mesh_of(const config::Plan& plan, dist::Comm& comm);

}  // namespace trainer::train
