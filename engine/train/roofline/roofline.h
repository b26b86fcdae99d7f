// How fast a run would be on GPUs that this machine doesn't have: the work of an update, as a dry run records it, and
// the rates of the GPUs and their links.
#pragma once

#include "engine/train/memory_plan.h"
#include "engine/train/roofline/timeline.h"

namespace trainer::train {

/// Throughput of the whole run.
struct Speed {
  double seconds = 0;  // of an update
  double tokens_per_second = 0;
  double mfu = 0;  // model FLOPs utilization, of the data sheet's rate in the dtype of mixed_precision
};

struct Roofline {
  Cluster cluster;
  int64_t gpus = 1;
  int64_t micro_batches = 1;  // of a rank in an update
  int64_t tokens = 0;         // of an update, over all ranks: sources, and targets that are decoded
  double peak = 0;            // FLOP/s of a GPU by its data sheet
  /// Of a GPU in an update, on average: 6 for each token and weight of a linear layer, 4 if it is frozen, and three times
  /// the products of attention's forward, masked or not. Embeddings, recomputation and padding to other GPUs' slices
  /// don't count.
  double model_flops = 0;
  Cost update;        // of a rank of the slowest pipeline stage
  double bubble = 0;  // seconds in which that rank waits for the pipeline to fill and drain
  double forward = 0;  // seconds of a micro-batch's forward pass alone, without gradients
  Speed speed;
  Speed with_flash_attention;  // if every call of attention were one kernel
};

/// `workload`: as for plan_memory; its largest micro-batch stands for all of them. Takes a second for a model of 8
/// billion parameters. `labels` as for make_blueprint; no weights are needed.
Roofline roofline_of(const config::Plan& plan, const std::vector<std::string>& labels, const Workload& workload,
                     const Cluster& cluster);

}  // namespace trainer::train
