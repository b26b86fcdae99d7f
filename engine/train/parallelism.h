// What a plan says about parallelism, in terms of engine/parallel.
#pragma once

#include <string>

#include "engine/config/plan/plan.h"
#include "engine/parallel/parallelize.h"

namespace trainer::train {

/// The dtype with a name of config.json; none if it is not a float.
std::optional<at::ScalarType> dtype_named(const std::string& name);

/// Its name.
std::string name_of(at::ScalarType dtype);

/// The number of ranks along each mesh axis.
dist::Degrees degrees_of(const config::Plan& plan);

/// The plan's way to parallelize a model, without replicas.
parallel::Parallelism parallelism_of(const config::Plan& plan);

/// The dtypes of the plan.
parallel::Precision precision_of(const config::Plan& plan);

/// A warning about the plan's mixed precision on this machine, or "".
std::string precision_warning(const config::Plan& plan);

/// A warning about training this model in fp16, or "".
std::string overflow_warning(const config::Plan& plan, models::Model& model);

}  // namespace trainer::train
