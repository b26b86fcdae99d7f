// The tokenizer and the samples of a run, tokenised first where that was not done before.
#pragma once

#include <memory>

#include "data/datasets.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/plan.h"

namespace trainer::prepare {

struct Inputs {
  std::unique_ptr<data::Tokenizer> tokenizer;  // null for images
  data::Datasets datasets;
};

/// Errors: ConfigError, InputError, MachineError.
Inputs load_inputs(const config::Plan& plan, const data::PrepareProgress& progress = {});

}  // namespace trainer::prepare
