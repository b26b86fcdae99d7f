// `behavior` of stages that split.
#pragma once

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/text/pieces.h"

namespace trainer::data {

/// Problems are recorded in `view`.
SplitBehavior read_split_behavior(const JsonView& view);

}  // namespace trainer::data
