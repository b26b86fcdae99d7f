// The tokenizer and the samples of a run, tokenized first if they are not in the cache.
#pragma once

#include <memory>
#include <string>

#include "data/samples/datasets.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/plan/plan.h"

namespace trainer::prepare {

struct Inputs {
  std::unique_ptr<data::Tokenizer> tokenizer;  // null for images
  std::string chat_template;                   // text of the template that renders dialogues; "" if none
  data::Datasets datasets;
};

/// Errors: ConfigError, InputError, MachineError.
Inputs load_inputs(const config::Plan& plan, const data::PrepareProgress& progress = {});

}  // namespace trainer::prepare
