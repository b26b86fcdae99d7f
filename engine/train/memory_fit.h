// Whether a run's memory fits into a device, and what would fit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/samples/datasets.h"
#include "engine/config/plan/plan.h"

namespace trainer::train {

/// The part of `bytes` of memory that tensors can use: allocators leave some unused, and libraries and samples need
/// some.
int64_t usable_bytes(int64_t bytes);

/// The largest number from 1 to `most` that fits, given that all below it fit too; 0 if none fits.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

/// The plan with `per_device` samples per micro-batch and its global batch unchanged.
config::Plan with_batch_size(config::Plan plan, int64_t per_device);

/// A change to a plan, written as options, and the memory a rank needs with it.
struct Alternative {
  std::string change;  // "training.gradient_checkpointing: true"
  int64_t peak = 0;    // bytes
};

/// `datasets`, which were read under `read_as`, with the lengths that they have under `planned`.
data::Datasets shortened(const data::Datasets& datasets, const config::DataConfig& read_as,
                         const config::DataConfig& planned);

/// The peak memory of a rank under a plan, in bytes.
using PeakOf = std::function<int64_t(const config::Plan&)>;

/// Changes with which a rank needs at most `usable` bytes according to `peak_of`: recomputation, smaller micro-batches,
/// shorter samples, bf16, FSDP over more ranks. If none is enough, the same combined with recomputation, and then also
/// with one sample per micro-batch. Returns at most `most` changes; empty when nothing fits.
std::vector<Alternative> what_fits(const config::Plan& plan, const PeakOf& peak_of, int64_t usable, size_t most);

/// "each of these changes …" and a line for each, for the end of an error message.
std::string what_fits_text(const std::vector<Alternative>& alternatives);

/// "79.1 GiB".
std::string gibibytes(int64_t bytes);

}  // namespace trainer::train
