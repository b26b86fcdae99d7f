// Describes files to the wizard, before a configuration exists.
#pragma once

#include <string>

#include "engine/config/plan/plan.h"

namespace trainer::prepare {

/// The samples of `data.train`, as JSON: their format, columns, dialogues (data/samples/describe_source.h); or
/// {"error": message} when they can't be read.
std::string describe_data(const config::Plan& plan);
/// {"samples": [text]}, the first ones of the plan as the model gets them.
std::string describe_samples(const config::Plan& plan);

/// The tokenizer of the plan, as JSON: its size and whether it has a chat template; or {"error": message}.
std::string describe_tokenizer(const config::Plan& plan);

}  // namespace trainer::prepare
