#pragma once

#include "engine/train/combine/source_adapter.h"

namespace trainer::train {

/// adapter_config.json of the combined adapter, whose scale is 1 in every layer.
nlohmann::json combined_config(const SourceAdapters& adapters, const CombineResult& result);

}  // namespace trainer::train
