#pragma once

#include "engine/train/combine/source_adapter.h"

namespace trainer::train {

/// Checks that PEFT's add_weighted_adapter can combine the adapters, as `request` says. Errors: ConfigError, with all
/// problems.
void check_adapters(const SourceAdapters& adapters, const CombineRequest& request);

}  // namespace trainer::train
