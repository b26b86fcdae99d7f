// Which samples a run takes when, and which rank takes which of an update: known to every rank by itself.
#pragma once

#include "data/order.h"
#include "data/packing.h"
#include "data/samples.h"
#include "engine/config/sections.h"

namespace trainer::train {

/// The order of the samples of a run.
data::Order order_of(const config::Config& config, const data::Samples& samples);

/// The micro-batches of every rank in the update of `positions`.
data::PackingPlan plan_update(const config::TrainingConfig& options, const data::Samples& samples,
                              const data::Order& order, data::Range positions, int64_t ranks);

}  // namespace trainer::train
