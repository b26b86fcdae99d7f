// What a run that learns preferences needs besides its model and its samples.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/config/plan/plan.h"
#include "engine/parallel/parallel_model.h"
#include "engine/prepare/inputs.h"
#include "models/nn/preference_loss.h"

namespace trainer::train {

/// Collective, before resuming: `model` has the values it was loaded with. The pairs of `inputs` get the reference's
/// log-probabilities (Note [Reference]): those of the run's file, or new ones, which are added to it.
void add_reference(const config::Plan& plan, prepare::Inputs& inputs, parallel::ParallelModel& model);

nn::PreferenceOptions preference_options(const config::DpoConfig& options);

/// Makes `pass` compute the loss of pairs, and sum up their rewards.
void compare_pairs(const config::Config& config, nn::Pass& pass);

/// This rank's sums of the rewards of `pass` (nn::RewardSums); empty if it doesn't compare pairs.
std::vector<double> reward_sums(const nn::Pass& pass);

/// The metrics of such sums over all ranks; none of empty ones.
std::map<std::string, double> reward_metrics(const std::vector<double>& sums);

}  // namespace trainer::train
