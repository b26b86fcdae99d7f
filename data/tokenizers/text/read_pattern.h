// `pattern` of stages in tokenizer.json: {"String": "…"} or {"Regex": "…"}.
#pragma once

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/text/pattern.h"

namespace trainer::data {

/// Problems are recorded in `view`.
Pattern read_pattern(const JsonView& view);

}  // namespace trainer::data
