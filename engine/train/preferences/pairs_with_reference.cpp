#include "engine/train/preferences/pairs_with_reference.h"

#include <cmath>

#include "engine/base/errors.h"

namespace trainer::train {

void PairsWithReference::read(int64_t index, data::Sample& sample) const {
  pairs_->read(index, sample);
  const double* const both = log_probs_.const_data_ptr<double>() + 2 * index;
  require(!std::isnan(both[0]) && !std::isnan(both[1]), "no reference of pair {}", index);
  sample.reference.assign(both, both + 2);
}

}  // namespace trainer::train
