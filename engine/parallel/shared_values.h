#pragma once

#include <map>
#include <vector>

#include "engine/dist/comm.h"
#include "models/nn/parameter.h"

namespace trainer::parallel {

// Note [Shared copies]
// Under DDP, each rank has a copy of the weights and updates it. Ranks that share memory (the CPUs of one machine) hold
// one copy, with the optimizer's state: each updates a part of it for all, from sums of gradients that are complete on
// every rank, so that a run has the bits of one on several machines. The optimizer's step begins when all ranks have
// come to it, and ends when all have updated their parts.

/// A trained weight in memory that ranks share, of which this rank updates the elements [first, last).
struct SharedValue {
  at::Tensor value;  // fp32, in the parameter's shape
  int64_t first, last;
};

using SharedValues = std::map<const nn::Parameter*, SharedValue>;

/// Collective. Memory for the values of `trained`; none if the ranks share no memory, or there is one rank.
SharedValues share_values(const std::vector<nn::ParameterPtr>& trained, dist::Comm& comm);

}  // namespace trainer::parallel
