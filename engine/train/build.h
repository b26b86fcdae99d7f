// The one place that turns a plan into objects.
#pragma once

#include <functional>
#include <memory>

#include "engine/config/plan.h"
#include "engine/dist/mesh.h"
#include "engine/optim/optimizer.h"
#include "engine/parallel/parallel_model.h"
#include "engine/parallel/weight_source.h"
#include "engine/prepare/inputs.h"
#include "models/model.h"

namespace trainer::train {

/// A model without values, with its adapters in place, and where its values come from.
struct Blueprint {
  std::unique_ptr<models::Model> model;
  std::vector<std::unique_ptr<parallel::WeightSource>> sources;  // each over the one before it
  config::LoraConfig lora;  // as resolved with an adapter folder; meaningful when the plan has lora
  int64_t adapted_layers = 0;
  bool without_weights = false;           // there are none to read: see Weights
  std::vector<std::string> started_anew;  // weights that the model's folder lacks, as a new head

  const parallel::WeightSource& source() const { return *sources.back(); }
};

/// Whether the model's folder must hold weights. Its config.json is enough to count their bytes.
enum class Weights { kNeeded, kMayLack };

/// Errors: ConfigError, InputError.
/// `labels`: of the classes, when the plan trains a classifier.
Blueprint make_blueprint(const config::Plan& plan, const std::vector<std::string>& labels = {},
                         Weights weights = Weights::kNeeded);

/// Both, fitting each other. `doing` is told what is being read.
struct Setup {
  Blueprint blueprint;
  prepare::Inputs inputs;
};
Setup set_up(
    const config::Plan& plan, const std::function<void(const char*)>& doing = [](const char*) {});

/// Whether the model can take these inputs: every id of the tokenizer has a row in its embedding, no sample is longer
/// than it can be, images have its size. Errors: ConfigError, InputError with both values.
void check_inputs(const config::Plan& plan, const models::Model& model, const prepare::Inputs& inputs);

/// Tokens of a sample's source that `model` has positions for, besides those of a learnt prompt; 0: any number.
int64_t most_tokens(const config::Plan& plan, const models::Model& model);

/// The same where no samples are known: whether the longest that the file asks for isn't longer than it can be. A
/// length that is only a default bounds nothing. Errors: ConfigError with both values.
void check_length_option(const config::Plan& plan, const models::Model& model);

/// Collective. The model spread over the ranks as the plan says, with its values.
std::unique_ptr<parallel::ParallelModel> make_parallel(const config::Plan& plan, Blueprint& blueprint,
                                                       dist::Comm& comm);

/// How many ranks there are along each axis.
dist::Degrees degrees_of(const config::Plan& plan);

/// The dtypes of the plan.
parallel::Precision precision_of(const config::Plan& plan);

/// What the numeric format of the plan means on this machine; a reason to think again, or "".
std::string precision_warning(const config::Plan& plan);

/// What must be known about training this model in fp16, or "".
std::string overflow_warning(const config::Plan& plan, models::Model& model);

}  // namespace trainer::train
