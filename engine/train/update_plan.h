// Which samples each update uses, and which rank gets which of them; every rank computes this itself.
#pragma once

#include "data/sampler/packing.h"
#include "data/sampler/sample_order.h"
#include "data/samples/samples.h"
#include "engine/config/sections.h"

namespace trainer::train {

/// The sample order of a run whose updates have `global_batch` samples.
data::SampleOrder order_of(const config::Config& config, const data::Samples& samples, int64_t global_batch);

/// The micro-batches of every rank in the update that uses `positions` of the sample order, whose samples have
/// `tokens`.
data::PackingPlan plan_update(const config::TrainingConfig& options, const data::TokensOf& tokens,
                              data::Range positions, int64_t ranks);

}  // namespace trainer::train
