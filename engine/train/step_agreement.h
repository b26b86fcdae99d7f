// What the ranks agree on after each forward and backward pass.
#pragma once

#include <vector>

#include "engine/dist/comm.h"

namespace trainer::train {

/// What a rank contributes.
struct StepReport {
  double loss = 0;          // its sum of losses; 0 on ranks that computed the same samples as another one
  bool stop = false;        // it was asked to stop,
  bool save = false;        // to save, or
  bool yield = false;       // to yield to joining machines
  bool save_ready = false;  // its part of the current save is done
  double work_seconds = 0;  // without waiting for other ranks
  std::vector<double>
      rewards{};  // of its pairs: sums, as many on every rank; 0 as the loss is; empty: there are no pairs
};

/// What all ranks know afterwards.
struct StepAgreement {
  double loss = 0;                                 // the sum of the ranks' losses
  bool stop = false, save = false, yield = false;  // any rank was asked to
  bool all_save_ready = false;                     // on every rank
  std::vector<double> work_seconds;                // of each rank
  std::vector<double> rewards;                     // the sums of the ranks' rewards
};

/// Collective. Everything in one all-reduce, because each collective of an update costs a round trip.
StepAgreement agree(const StepReport& mine, dist::Comm& comm);

}  // namespace trainer::train
