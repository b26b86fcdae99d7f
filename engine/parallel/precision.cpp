#include "engine/parallel/precision.h"

#include "engine/base/errors.h"

namespace trainer::parallel {
namespace {

/// A block has values of one row of the tensor that a file holds, so that every rank has the same blocks.
void check_blocks(const nn::Parameter& p, const nn::PackedFormat& format) {
  const size_t axis = p.whole_shape().size() - 1;
  if (p.whole_shape()[axis] % format.block != 0)
    throw ConfigError("{}: axis {} has {} values, which are not whole blocks of {} ({})", p.name, axis,
                      p.whole_shape()[axis], format.block, format.name);
  if (p.part.dim != static_cast<int64_t>(axis)) return;
  for (const nn::Range& range : p.part.ranges)
    if (range.begin % format.block != 0 || range.end % format.block != 0)
      throw ConfigError(
          "{}: tensor parallelism gives a rank values {} to {} of axis {}, which are not whole blocks of {} ({})\n  "
          "Choose a parallelism_config.parallelism_config_tp_size that divides {} into whole blocks.",
          p.name, range.begin, range.end - 1, axis, format.block, format.name, p.whole_shape()[axis]);
}

}  // namespace

nn::Storage Precision::storage(const nn::Parameter& parameter, const nn::Storage& source) const {
  if (parameter.trainable) return at::kFloat;
  if (frozen_as && frozen_as->packed && parameter.packable()) {
    check_blocks(parameter, *frozen_as->packed);
    return *frozen_as;
  }
  if (compute_dtype(parameter) != at::kFloat) return compute_dtype(parameter);
  return frozen_as && !frozen_as->packed ? *frozen_as : source;
}

}  // namespace trainer::parallel
