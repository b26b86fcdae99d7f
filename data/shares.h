// How a run is cut into updates, an update into ranks' shares, and a share into micro-batches. Pure functions of
// numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "data/range.h"

namespace trainer::data {

/// Part `index` of `whole` cut into `parts` contiguous pieces of floor or ceil size, the larger ones first.
/// The pieces are disjoint and cover `whole`; with fewer elements than parts the last ones are empty.
Range share_of(Range whole, int64_t index, int64_t parts);

/// How many micro-batches of at most `per_device` samples the largest share of `samples` over `ranks` needs.
/// The same for every rank, so that all of them run the same collectives.
int64_t micro_batch_count(int64_t samples, int64_t ranks, int64_t per_device);

/// The micro-batches of `rank`: its share of `samples` cut into micro_batch_count pieces of floor or ceil size, some of
/// which may be empty. Serves updates (positions of the order) and evaluation (indices) alike.
std::vector<Range> micro_batches(Range samples, int64_t rank, int64_t ranks, int64_t per_device);

/// The updates of a run over `samples` samples an epoch in global batches of `global_batch`. An update never crosses
/// the end of an epoch: the last one of each holds what is left. The cursor is the number of samples consumed so far.
class Updates {
 public:
  Updates(int64_t samples, int64_t global_batch);

  int64_t per_epoch() const;

  /// Positions of update `index`, counted from 0 over the whole run.
  Range at(int64_t index) const;

  /// The update that starts at `cursor`, also at one that another global batch left in the middle of an epoch.
  Range next(int64_t cursor) const;

  /// How many updates end at or before `cursor` when all of them have this global batch.
  int64_t done_at(int64_t cursor) const;

  /// How many updates lead from `cursor` to the end of the run of `epochs` epochs (a fraction counts as
  /// ceil(epochs * per_epoch) updates from the start).
  int64_t left(int64_t cursor, double epochs) const;

  /// Updates of a whole run: ceil(epochs * per_epoch).
  int64_t total(double epochs) const { return left(0, epochs); }

  /// Epochs done at `cursor`, e.g. 1.25.
  double epochs_at(int64_t cursor) const;

 private:
  int64_t samples_, global_batch_;
};

}  // namespace trainer::data
