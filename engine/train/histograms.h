// Histograms of a model's trained parameters, over all ranks.
#pragma once

#include <vector>

#include "engine/metrics/records.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::train {

enum class HistogramOf { kGradients, kWeights };

/// Collective. A histogram of each trained parameter's gradient, without the loss scale, or weight, the same on every
/// rank. Each element counts once, however the parameters are sharded or replicated. Gradients that no rank has give
/// histograms that count nothing.
std::vector<metrics::Histogram> histograms_of(parallel::ParallelModel& model, HistogramOf what);

}  // namespace trainer::train
