// What a run will need in memory, known before it starts.
#pragma once

#include <algorithm>

#include "engine/dist/dry_comm.h"
#include "engine/train/build.h"
#include "engine/train/longest_batches.h"

namespace trainer::train {

// Note [Dry run]
// The memory of a run is not described a second time beside the code: the code itself runs, on tensors of libtorch's
// meta device, which have shapes and dtypes but no memory and no values, over a communicator that sends nothing
// (engine/dist/dry_comm.h), while engine/dist/dry_memory.h counts what they would hold. So sharding, prefetching, LoRA,
// gradient checkpointing, mixed precision and autograd itself are counted as they are. A newcomer's part in it:
//   - a kernel that touches values loops over rows_to_compute(x, rows) rows (models/nn/kernel.h), and makes its tensors
//     on the device of its inputs;
//   - what allocates for communication does so within a dist::CommunicationMemory;
//   - an operator of libtorch without shapes in C++ gets them in dry_memory.cpp (the dry run names it and fails).
// Where ranks are on GPUs, the dry run takes the layers and the collectives that run there (nn::DryDevice,
// dist::Transport::kDevices), and what stays on the host is left out.
// tests/parallel/memory_plan_test.cpp holds the result against what real runs hold; docs/memory.md shows both.

/// Bytes of one rank. All are of tensors: beside them stand libtorch itself (about 110 MiB, partly shared by the
/// ranks of a machine), the samples and what allocators leave unused.
struct MemoryPlan {
  // Held all the time: this rank's pieces, or replicas, of
  int64_t weights = 0;    // in the dtype they are kept in, padding included
  int64_t gradients = 0;  // fp32; under DDP they lie in the buckets that are reduced
  int64_t optimizer = 0;  // its state, what its step needs beyond all other parts, and a copy to be saved (async_save)
  // Held at the moment of training that needs most memory:
  int64_t activations = 0;    // values for the backward, gradients on their way, token ids
  int64_t communication = 0;  // FSDP's whole units and their gradients, and the transport's copies

  int64_t evaluation = 0;  // the most while evaluating and generating, all parts; 0: nothing to evaluate on
  int64_t saving = 0;      // the most while saving a checkpoint or exporting, all parts

  int64_t stage = 0;  // of a pipeline: which one the rank is of

  int64_t held() const { return weights + gradients + optimizer; }
  int64_t training() const { return held() + activations + communication; }
  int64_t peak() const { return std::max({training(), evaluation, saving}); }
};

/// The batches to find the most memory among, and how ranks communicate.
struct Workload {
  LongestBatches training, evaluation;
  int64_t new_tokens = 0;  // generated a sample in evaluation; 0: nothing is generated
  int64_t under_way = 1;   // micro-batches that are in a pipeline at a time
  /// kDevices: ranks compute on GPUs, so the layers that run there are planned.
  dist::Transport transport = dist::Transport::kSharedMemory;
};
Workload workload_of(const config::Plan& plan, const data::Datasets& datasets);
/// Where no samples are known: with batches as full as they can be of samples that `model` can take.
Workload fullest_workload(const config::Plan& plan, const models::Model& model);

/// Takes milliseconds and allocates next to nothing, whatever the size of the model. Uses up the blueprint. `stage`: of
/// a pipeline, whose ranks need different amounts.
MemoryPlan plan_memory(const config::Plan& plan, Blueprint blueprint, const Workload& workload, int64_t stage = 0);

/// Of the stage that needs most. `labels` as for make_blueprint; no weights are needed.
MemoryPlan plan_largest_memory(const config::Plan& plan, const std::vector<std::string>& labels,
                               const Workload& workload);

}  // namespace trainer::train
