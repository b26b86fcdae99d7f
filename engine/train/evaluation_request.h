#pragma once

#include <functional>
#include <string>

#include "engine/config/sections.h"
#include "engine/evaluation/evaluate.h"
#include "engine/prepare/inputs.h"

namespace trainer::train {

/// The most tokens of a generated prediction.
int64_t new_tokens(const config::Config& config);

/// The evaluation of `inputs`' validation samples that `config` describes. It generates if a metric needs it, or if
/// `generates`. The result refers to both arguments.
evaluation::Request evaluation_request(const config::Config& config, const prepare::Inputs& inputs, bool generates,
                                       std::function<void(const std::string&)> progress);

}  // namespace trainer::train
