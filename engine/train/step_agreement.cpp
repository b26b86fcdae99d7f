#include "engine/train/step_agreement.h"

#include <algorithm>

#include <ATen/ops/zeros.h>

namespace trainer::train {
namespace {

/// The elements of the tensor that is summed; the ranks' seconds follow, one element each, and then the rewards.
/// (Gloo's sum of an element over three or more ranks depends on the element's offset, so a reordering would change the
/// last bit of losses.)
enum Slot { kLoss, kStop, kSave, kSaveReady, kYield, kSlots };

}  // namespace

StepAgreement agree(const StepReport& mine, dist::Comm& comm) {
  const int ranks = comm.size();
  const auto rewards = static_cast<int64_t>(mine.rewards.size());
  const at::Tensor shared = at::zeros({kSlots + ranks + rewards}, at::kDouble);
  double* const values = shared.mutable_data_ptr<double>();
  values[kLoss] = mine.loss;
  values[kStop] = mine.stop;
  values[kSave] = mine.save;
  values[kSaveReady] = mine.save_ready;
  values[kYield] = mine.yield;
  values[kSlots + comm.rank()] = mine.work_seconds;
  double* const first_reward = values + kSlots + ranks;
  std::copy(mine.rewards.begin(), mine.rewards.end(), first_reward);
  comm.all_reduce(shared);
  return {values[kLoss],
          values[kStop] > 0,
          values[kSave] > 0,
          values[kYield] > 0,
          values[kSaveReady] == ranks,
          {values + kSlots, values + kSlots + ranks},
          {first_reward, first_reward + rewards}};
}

}  // namespace trainer::train
