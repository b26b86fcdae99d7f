#include "engine/parallel/precision.h"

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::parallel {
namespace {

/// Whether the inputs, along which blocks run, aren't the last axis.
bool stored_transposed(const nn::Parameter& p) {
  return p.axes.in + 1 != static_cast<int64_t>(p.whole_shape().size());
}

}  // namespace

/// A block has values of one output, so that every rank has the same blocks.
std::string Precision::packing_problem(const nn::Parameter& p) const {
  if (packed == nullptr || !p.packable()) return "";
  const int64_t block = packed->block;
  const auto axis = static_cast<size_t>(p.axes.in);
  const auto name = [&] { return fmt::format("{} ({} values)", packed->name, block); };
  if (p.whole_shape()[axis] % block != 0)
    return fmt::format("{}: axis {} has {} values, which are not whole blocks of {}", p.name, axis,
                       p.whole_shape()[axis], name());
  if (p.part.dim != static_cast<int64_t>(axis)) return "";
  for (const nn::Range& range : p.part.ranges)
    if (range.begin % block != 0 || range.end % block != 0)
      return fmt::format(
          "{}: tensor parallelism gives a rank values {} to {} of axis {}, which are not whole blocks of {}", p.name,
          range.begin, range.end - 1, axis, name());
  return "";
}

nn::Storage Precision::storage(const nn::Parameter& parameter, const nn::Storage& source) const {
  if (parameter.trainable) return at::kFloat;
  if (packed != nullptr && parameter.packable()) {
    if (const std::string problem = packing_problem(parameter); !problem.empty())
      throw ConfigError("model.quantization_config.load_in_4bit: {}\n  Add the layer to llm_int8_skip_modules{}.",
                        problem, parameter.part.whole() ? "" : kOtherSlices);
    nn::Storage storage = *packed;
    storage.transposed = stored_transposed(parameter);
    return storage;
  }
  if (compute_dtype(parameter) != at::kFloat) return compute_dtype(parameter);
  return frozen_as ? nn::Storage(*frozen_as) : source;
}

}  // namespace trainer::parallel
