#include "engine/checkpoint/live_tensor.h"

#include <map>

namespace trainer::checkpoint {

std::vector<LiveTensor> live_tensors(const RunState& state) {
  std::vector<LiveTensor> all;
  std::map<std::string, parallel::LogicalTensor> by_name;
  for (const parallel::LogicalTensor& tensor : state.model.logical_tensors()) {
    if (!tensor.trainable) continue;
    by_name[tensor.name] = tensor;
    all.push_back({kParameter, tensor});
  }
  for (const optim::StateTensor& piece : state.optimizer.state())
    all.push_back({piece.kind, piece.logical(by_name.at(piece.parameter))});
  return all;
}

}  // namespace trainer::checkpoint
