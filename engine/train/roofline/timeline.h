// The time of a recorded dry run on GPUs.
#pragma once

#include <array>
#include <vector>

#include "engine/train/roofline/cluster.h"

namespace trainer::train {

enum class Part { kLinear, kAttention, kOther, kOptimizer };
constexpr size_t kParts = 4;
const char* name_of(Part part);                       // "linear layers"
const char* name_of(dist::DryCollective::Kind kind);  // "all-gather"

/// Sums over operators of a rank.
struct PartCost {
  double launches = 0, flops = 0, bytes = 0;
  double seconds = 0;  // of the device
};

/// Sums over collectives of one kind.
struct TransferCost {
  dist::DryCollective::Kind kind;
  int64_t ranks = 0, machines = 0;
  double count = 0, bytes = 0, seconds = 0;
};

/// What a rank does in some time, and which part of the time goes where.
struct Cost {
  double seconds = 0;    // all of it
  double computing = 0;  // the device runs operators
  double exposed = 0;    // it waits for collectives that operators don't cover
  double starved = 0;    // it waits for the host to launch operators, or to read a value
  double host_reads = 0;
  std::array<PartCost, kParts> parts;
  std::vector<TransferCost> transfers;

  PartCost& part(Part which) { return parts[static_cast<size_t>(which)]; }
  const PartCost& part(Part which) const { return parts[static_cast<size_t>(which)]; }
  PartCost all_parts() const;
  /// Adds `other`, `times` times. Transfers of the same kind and ranks are one.
  void add(const Cost& other, double times = 1);
};

// Note [Timeline]
// The host goes through the list and launches operators, one after the other. The device runs them in order, each as
// soon as it is launched and the one before it has ended. A collective starts when the device has reached the place
// where it was started and its communicator is free, and runs beside the operators; a wait holds the operators back
// until it has ended. So what is exposed follows from the order in which the training code starts and awaits. Left out:
// collectives that disturb each other or take compute units away, the wait for slower ranks, and all that the host does
// besides launching.

struct TimelineOptions {
  bool end_of_update = false;  // every operator belongs to Part::kOptimizer
  /// Each call of attention takes the time of one flash attention instead, in half precision, which skips masked halves.
  bool flash_attention = false;
  bool causal = false;
};

/// The time of `trace`, from a device without work to one.
Cost time_of(const dist::DryTrace& trace, const Cluster& cluster, const TimelineOptions& options = {});

}  // namespace trainer::train
