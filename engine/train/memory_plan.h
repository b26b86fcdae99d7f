// The memory that a run will need, known before it starts.
#pragma once

#include <algorithm>
#include <string>

#include "engine/dist/dry_comm.h"
#include "engine/train/build.h"
#include "engine/train/longest_batches.h"

namespace trainer::train {

// Note [Dry run]
// There is no separate memory model: the training code itself runs on tensors of libtorch's meta device, which have
// shapes and dtypes but no memory and no values, over a communicator that sends nothing (engine/dist/dry_comm.h), while
// engine/dist/dry_memory.h counts the bytes they would have. So sharding, prefetching, LoRA, gradient checkpointing,
// mixed precision and autograd itself are all counted. New code must follow these rules:
//   - a kernel that reads or writes values loops over rows_to_compute(x, rows) rows (models/nn/kernel.h) and creates
//     its tensors on the device of its inputs;
//   - code that allocates for communication does so within a dist::CommunicationMemory;
//   - a libtorch operator without a shape function in C++ gets one in dry_memory.cpp (the dry run names it and fails);
//   - code that reads a value from the device, and doesn't in a dry run, records a dist::DryHostRead instead.
// For ranks on GPUs, the dry run uses the layers and collectives that run there (nn::DryDevice, dist::on_devices). What
// is allocated within a dist::HostMemory, such as offloaded shards, is counted as memory of the host.
// tests/parallel/memory_plan_test.cpp compares the result with real runs; docs/memory.md shows both.

/// Bytes of one rank's tensors. Not counted: libtorch itself (about 110 MiB, partly shared by the ranks of a machine),
/// the samples and what allocators leave unused.
struct MemoryPlan {
  // Held all the time: this rank's shards, or replicas, of
  int64_t weights = 0;    // as stored, padding included
  int64_t gradients = 0;  // fp32; under DDP these are the reduction buckets; with those that ranks share (FSDP)
  int64_t optimizer = 0;  // its state, temporaries of its step beyond all other parts, and async_save's copy
  // Held at the moment of training that needs the most memory:
  int64_t activations = 0;    // values saved for the backward pass, gradients in flight, token ids; twice with
                              // training.cuda_graphs; and training.encoder_cache_mb
  int64_t communication = 0;  // FSDP's gathered units and their gradients, and the transport's buffers

  int64_t evaluation = 0;  // peak while evaluating and generating, all parts; 0: nothing to evaluate on
  int64_t saving = 0;      // peak while saving a checkpoint or exporting, all parts

  // On a GPU, in addition: peak of its rank's host memory, of offloaded shards and of async_save's copy. The parts
  // above don't include them.
  int64_t host = 0;

  int64_t stage = 0;      // the rank's pipeline stage
  std::string attention;  // on a GPU, what computes it in training, and why (nn::AttentionCount); "" on a CPU

  int64_t held() const { return weights + gradients + optimizer; }
  int64_t training() const { return held() + activations + communication; }
  int64_t peak() const { return std::max({training(), evaluation, saving}); }
};

/// The candidate batches for the memory peak, and how ranks communicate.
struct Workload {
  LongestBatches training, evaluation;
  int64_t new_tokens = 0;  // generated per sample in evaluation; 0: no generation
  int64_t beams = 1;       // texts that a beam search follows for each sample
  int64_t under_way = 1;   // micro-batches in flight in a pipeline
  /// dist::on_devices(): ranks compute on GPUs, so the GPU layers are planned.
  dist::Transport transport = dist::Transport::kSharedMemory;
};
Workload workload_of(const config::Plan& plan, const data::Datasets& datasets);
/// Between ranks that compute on GPUs.
dist::Transport transport_of_gpus(const config::Config& config);
/// When no samples are known: full batches of the longest samples that `model` can process.
Workload fullest_workload(const config::Plan& plan, const models::Model& model);

/// Takes milliseconds and allocates next to nothing for any size of model. Consumes the blueprint. `stage`: of a
/// pipeline, whose stages need different amounts.
MemoryPlan plan_memory(const config::Plan& plan, Blueprint blueprint, const Workload& workload, int64_t stage = 0);

/// The plan of the stage that needs the most. `labels` as for make_blueprint; no weights are needed.
MemoryPlan plan_largest_memory(const config::Plan& plan, const std::vector<std::string>& labels,
                               const Workload& workload);

}  // namespace trainer::train
