// The results of `trainer check`, as a page for people and as JSON for scripts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/config/machine/gpu_memory.h"
#include "engine/config/plan/plan.h"
#include "engine/prepare/run_length.h"
#include "engine/train/longest_batches.h"
#include "engine/train/memory_fit.h"
#include "engine/train/memory_plan.h"
#include "engine/train/roofline/roofline.h"
#include "engine/train/sample_lengths.h"

namespace trainer::train {

struct ModelReport {
  std::string class_name;
  int64_t parameters = 0, trained = 0;         // elements, tied weights once
  std::vector<std::vector<std::string>> tied;  // the names of each tied weight, first the one it is saved under
  std::string packed_as;                       // the format of quantized weights; "": none
  int64_t packed_layers = 0, packed = 0;       // quantized layers, and their weights' elements
};

struct LoraTarget {
  std::string name;
  int64_t in = 0, out = 0;
  int64_t trained = 0;  // elements of the adapter, and of a trained bias
};

/// A unit whose parameters FSDP gathers together.
struct UnitReport {
  std::string name;  // the module's path; "the root" for the parameters of no other unit
  std::string class_name;
  int64_t parameters = 0;
  int64_t bytes = 0;  // of the whole unit as stored, over all ranks
};

struct DataReport {
  int64_t samples = 0, tokens = 0, cut_off = 0, validation_samples = 0;
  LengthReport source, target;
  std::vector<std::string> classes;  // of a classifier, in output order
};

/// What the reference of preferences costs (Note [Reference]), before the first update.
struct ReferenceReport {
  int64_t pairs = 0, tokens = 0;  // of the forward pass, over all ranks; 0: unknown, because there are no samples
  int64_t bytes = 0;              // of its log-probabilities, which each rank keeps
  std::optional<double> seconds;  // with Roofline
};

struct RunReport {
  int64_t ranks = 0, data_ranks = 0, per_device = 0, accumulation = 0;
  dist::Degrees degrees;
  prepare::RunLength length;
  double epochs = 0;  // 0: unknown, because there are no samples
  struct Rate {
    int64_t percent = 0, update = 0;  // position in the run; updates count from 1
    double value = 0;
  };
  std::vector<Rate> learning_rate;
};

/// The memory of each rank's GPU, when known: this machine's, or the one that the user names.
struct GpuReport {
  config::GpuMemory memory;
  int64_t usable = 0;                     // bytes that tensors can use
  bool fits = true;                       // whether a rank's peak fits
  std::vector<Alternative> alternatives;  // changes that make it fit, when it doesn't
};

struct CheckReport {
  std::vector<std::string> devices;  // lines about this machine's, for a configuration that asks for GPUs
  ModelReport model;
  config::LoraConfig lora_options;  // as resolved with an adapter folder
  std::vector<LoraTarget> lora;     // linear layers with an adapter
  std::vector<UnitReport> units;    // in forward order, the root last; empty without FSDP
  MemoryPlan memory;
  LongestBatches longest;
  bool on_gpus = false;  // the plan is for GPUs
  std::optional<GpuReport> gpu;
  std::optional<Roofline> roofline;
  std::optional<ReferenceReport> reference;  // with dpo
  DataReport data;                           // without samples when none are known
  RunReport run;
  std::string warning;               // about the model in the plan's precision; "": none
  std::vector<std::string> missing;  // inputs without which a launch is refused, and what check assumes instead
};

/// Reads all inputs of a run that exist. `gpu`: each rank's GPU; with it the plan is for GPUs, even if this machine has
/// none. `cluster`: the GPUs to predict the speed on. Errors: those of the plan's inputs.
CheckReport check_report(const config::Plan& plan, const std::optional<config::GpuMemory>& gpu = {},
                         const std::optional<Cluster>& cluster = {});

/// The error message of a plan that doesn't fit into its GPUs, in at most 6 lines.
std::string too_much_memory(const CheckReport& report, const config::Plan& plan);

/// The report in 80 columns; what matters most comes last, too.
std::string to_text(const CheckReport& report, const config::Plan& plan);

/// The report in a few lines: model, data, memory, updates, and the warnings.
std::string to_brief(const CheckReport& report, const config::Plan& plan);

/// One object; sizes in bytes, lengths in tokens:
///   model     {class, parameters, trained, tied: [[name]], quantized: null, or {format, layers, parameters}}
///   lora      null, or {r, alpha, dropout, targets: [{name, in, out, trained}]}
///   fsdp      null, or {units: [{name, class, parameters, bytes}]}
///   memory    {weights, gradients, optimizer, activations, communication, training, evaluation, saving, peak}: of one
///             rank; `training` is the sum of the first five, `peak` the largest of training, evaluation and saving.
///             attention: what computes it on a GPU, and why; "" on a CPU. device: "gpu" or "cpu", the device the plan
///             is for; gpu: null, or {name, bytes, usable, fits, alternatives: [{change, peak}]}; host: bytes of the
///             host's memory in addition, on GPUs
///   speed     null, or of a run on the GPUs that --device names: {device, gpus, machines, network (bytes per second of
///             each GPU), peak_flops, tokens (of an update), micro_batches, model_flops (of a GPU in an update),
///             seconds, tokens_per_second, tokens_per_second_per_gpu, mfu,
///             with_flash_attention: {seconds, tokens_per_second, tokens_per_second_per_gpu, mfu},
///             computing_seconds, exposed_communication_seconds, launch_seconds (waits for the host), bubble_seconds,
///             host_reads, launches, flops, bytes, parts: [{part, launches, flops, bytes, seconds}],
///             communication: [{kind, ranks, machines, count, bytes, seconds}]}: of a rank in an update
///   reference null, or of preferences, before the first update: {pairs, tokens, bytes, seconds: null without --device}
///   longest_batches  [{samples, source_tokens, target_tokens}]: the candidates; the largest needs `activations`
///   data      {samples, tokens, cut_off, validation_samples, source, target, classes}; source and target are
///             {shortest, longest, mean, histogram: [{from, to, samples}]}, classes a list of names
///   run       {ranks, per_device, accumulation, global_batch, updates_per_epoch, left_out, updates, epochs,
///             learning_rate: [{percent, update, value}]}
///   source    the configuration file
///   translated      [{key, value, origin, text}]: keys of other programs; `text` is their translation
///   without_effect  [{key, value, origin, text}]: `text` is the reason
///   devices   [text]: about this machine's GPUs, or why a configuration for GPUs trains on the CPU
///   missing   [text]: inputs without which `trainer launch` is refused
///   warnings  [text]
nlohmann::json to_json(const CheckReport& report, const config::Plan& plan);

}  // namespace trainer::train
