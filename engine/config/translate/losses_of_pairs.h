// TRL's DPOConfig has a list of losses and their weights; the section `dpo` has one loss, and the weight of sft.
#pragma once

#include <string>

#include "engine/config/document/document.h"

namespace trainer::config {

struct LossesOfPairs {
  Node loss_type;
  Node rpo_alpha;   // the weight of sft; null if it isn't among the losses
  std::string why;  // not empty: there is no such loss here, and this says what to write instead
};

/// `weights` can be null: each is 1, as in TRL.
LossesOfPairs losses_of_pairs(const Node& losses, const Node& weights);

}  // namespace trainer::config
