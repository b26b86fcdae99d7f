#include "engine/train/step_agreement.h"

#include <ATen/ops/zeros.h>

namespace trainer::train {
namespace {

/// The elements of the tensor that is summed; the ranks' seconds follow, one element each. (Gloo's sum of an element
/// over three or more ranks depends on the element's offset, so a reordering would change the last bit of losses.)
enum Slot { kLoss, kStop, kSave, kSaveReady, kYield, kSlots };

}  // namespace

StepAgreement agree(const StepReport& mine, dist::Comm& comm) {
  const int ranks = comm.size();
  const at::Tensor shared = at::zeros({kSlots + ranks}, at::kDouble);
  double* const values = shared.mutable_data_ptr<double>();
  values[kLoss] = mine.loss;
  values[kStop] = mine.stop;
  values[kSave] = mine.save;
  values[kSaveReady] = mine.save_ready;
  values[kYield] = mine.yield;
  values[kSlots + comm.rank()] = mine.work_seconds;
  comm.all_reduce(shared);
  return {values[kLoss],      values[kStop] > 0,           values[kSave] > 0,
          values[kYield] > 0, values[kSaveReady] == ranks, {values + kSlots, values + kSlots + ranks}};
}

}  // namespace trainer::train
