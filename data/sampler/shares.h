// Splits a run into updates, an update into one slice per rank, and a slice into micro-batches. Pure functions of
// numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampler/range.h"

namespace trainer::data {

/// Slice `index` of `whole` split into `parts` contiguous slices of floor or ceil size, the larger ones first.
/// The slices are disjoint and cover `whole`; with fewer elements than parts, the last ones are empty.
Range share_of(Range whole, int64_t index, int64_t parts);

/// The number of micro-batches of at most `per_device` samples that the largest slice of `samples` over `ranks` needs.
/// The same for every rank, so that all ranks run the same collectives.
int64_t micro_batch_count(int64_t samples, int64_t ranks, int64_t per_device);

/// The micro-batches of `rank`: its slice of `samples` split into micro_batch_count ranges of floor or ceil size, some
/// of which may be empty. Used for updates (sample indices of the run) and for evaluation (samples).
std::vector<Range> micro_batches(Range samples, int64_t rank, int64_t ranks, int64_t per_device);

/// The updates of a run with `samples` samples per epoch in global batches of `global_batch`. An update never crosses
/// the end of an epoch: the last one of each epoch may be smaller. The cursor is the number of samples consumed so far.
class Updates {
 public:
  Updates(int64_t samples, int64_t global_batch);

  int64_t per_epoch() const;

  /// The sample indices of update `index`, counted from 0 over the whole run.
  Range at(int64_t index) const;

  /// The update that starts at `cursor`, which another global batch size may have left in the middle of an epoch.
  Range next(int64_t cursor) const;

  /// The number of updates that end at or before `cursor` if all of them have this global batch size.
  int64_t done_at(int64_t cursor) const;

  /// The number of updates from `cursor` to the end of a run of `epochs` epochs (a fractional number of epochs has
  /// ceil(epochs * per_epoch) updates).
  int64_t left(int64_t cursor, double epochs) const;

  /// The number of updates of a whole run: ceil(epochs * per_epoch).
  int64_t total(double epochs) const { return left(0, epochs); }

  bool ends_epoch(int64_t cursor) const { return cursor % samples_ == 0; }

  /// The epochs completed at `cursor`, e.g. 1.25.
  double epochs_at(int64_t cursor) const;

 private:
  int64_t samples_, global_batch_;
};

}  // namespace trainer::data
