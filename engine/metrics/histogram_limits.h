#pragma once

#include <vector>

namespace trainer::metrics {

/// The limits between the buckets of histograms, in ascending order: 0, and 1e-12 * 1.1^k below 1e20 with both signs. A
/// bucket holds its lower limit, not its upper one. Source: default_bins of TensorBoard's SummaryWriter.
const std::vector<double>& histogram_limits();

}  // namespace trainer::metrics
