#pragma once

#include <cstdint>
#include <vector>

#include "models/nn/pass.h"

namespace trainer::parallel {

/// What a graph of a micro-batch is recorded for: two micro-batches of the same shape differ only in the values of
/// their tensors.
using BatchShape = std::vector<int64_t>;

/// Of DecoderModel::loss_inputs().
BatchShape shape_of(const nn::RowsList& inputs, const nn::Pass& pass);

/// Tensors on a device for the micro-batches of one shape, one after the other (Note [Shapes]).
class GraphInputs {
 public:
  GraphInputs(const nn::RowsList& shape, at::Device device);
  /// In the order of the current stream.
  void set(const nn::RowsList& inputs);
  const nn::RowsList& rows() const { return rows_; }

 private:
  at::Device device_;
  nn::RowsList rows_;
};

}  // namespace trainer::parallel
