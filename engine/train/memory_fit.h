// Whether what a run holds fits into a device, and what would fit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "engine/config/plan.h"

namespace trainer::train {

/// Of `bytes` of memory, those that tensors may take: allocators leave some unused, and libraries and samples need
/// some.
int64_t usable_bytes(int64_t bytes);

/// The largest number from 1 to `most` that fits, where all below it fit too; 0: none.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

/// The plan with so many samples in a micro-batch, and the global batch as it was.
config::Plan with_batch_size(config::Plan plan, int64_t per_device);

/// A change of a plan, in the words of its options, and what a rank needs then.
struct Alternative {
  std::string change;  // "training.gradient_checkpointing: true"
  int64_t peak = 0;    // bytes
};

/// `datasets`, which were read as `read_as` says, with the lengths that they have as `planned` says.
data::Datasets shortened(const data::Datasets& datasets, const config::DataConfig& read_as,
                         const config::DataConfig& planned);

/// What a rank of a plan needs at most, in bytes.
using PeakOf = std::function<int64_t(const config::Plan&)>;

/// Changes with which a rank needs `usable` bytes or less, each held against `peak_of`: recomputation, smaller
/// micro-batches, shorter samples, bf16, FSDP over more ranks. Where none is enough, the same with recomputation, and
/// then with one sample at a time too. At most `most` of them; empty: none of all these fits.
std::vector<Alternative> what_fits(const config::Plan& plan, const PeakOf& peak_of, int64_t usable, size_t most);

/// "each of these fits …" and a line for each, to stand below what doesn't.
std::string what_fits_text(const std::vector<Alternative>& alternatives);

/// "79.1 GiB".
std::string gibibytes(int64_t bytes);

}  // namespace trainer::train
