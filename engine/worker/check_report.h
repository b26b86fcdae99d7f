// What `trainer check` finds out, and its two forms: a page for people, JSON for scripts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/config/gpu_memory.h"
#include "engine/config/plan.h"
#include "engine/prepare/run_length.h"
#include "engine/train/longest_batches.h"
#include "engine/train/memory_fit.h"
#include "engine/train/memory_plan.h"

namespace trainer::worker {

struct ModelReport {
  std::string class_name;
  int64_t parameters = 0, trained = 0;         // elements, tied weights once
  std::vector<std::vector<std::string>> tied;  // names of one weight, the one it is saved under first
};

struct LoraTarget {
  std::string name;
  int64_t in = 0, out = 0;
  int64_t trained = 0;  // elements of A [r, in] and B [out, r]
};

/// What FSDP gathers together.
struct UnitReport {
  std::string name;  // the module's path; "the root" for what is in no other unit
  std::string class_name;
  int64_t parameters = 0;
  int64_t bytes = 0;  // of the whole unit as it is kept, over all ranks
};

/// Lengths of the sources or the targets of the training samples, in tokens.
struct LengthReport {
  struct Bar {
    int64_t from = 0, to = 0;  // both counted
    int64_t samples = 0;
  };
  int64_t shortest = 0, longest = 0;
  double mean = 0;
  std::vector<Bar> histogram;  // no gaps; none where there are no samples
};

struct DataReport {
  int64_t samples = 0, tokens = 0, cut_off = 0, validation_samples = 0;
  LengthReport source, target;
  std::vector<std::string> classes;  // of a classifier, in the order of its outputs
};

struct RunReport {
  int64_t ranks = 0, data_ranks = 0, per_device = 0, accumulation = 0;
  dist::Degrees degrees;
  prepare::RunLength length;
  double epochs = 0;  // 0: not known without samples, and so updates, unless they are given
  struct Rate {
    int64_t percent = 0, update = 0;  // of the run; updates count from 1
    double value = 0;
  };
  std::vector<Rate> learning_rate;
};

/// What ranks have on GPUs, where that is known: those of this machine, or those that the user names.
struct GpuReport {
  config::GpuMemory memory;
  int64_t usable = 0;                            // by tensors
  bool fits = true;                              // what a rank needs at most
  std::vector<train::Alternative> alternatives;  // that fit, where the plan doesn't
};

struct CheckReport {
  ModelReport model;
  config::LoraConfig lora_options;  // as resolved with an adapter folder
  std::vector<LoraTarget> lora;     // empty without LoRA
  std::vector<UnitReport> units;    // in forward order, the root last; empty without FSDP
  train::MemoryPlan memory;
  train::LongestBatches longest;
  bool on_gpus = false;  // what is planned
  std::optional<GpuReport> gpu;
  DataReport data;  // no samples: none are known
  RunReport run;
  std::string warning;               // about the model in the plan's precision; "": none
  std::vector<std::string> missing;  // what a launch would be refused for, and how it is planned for here
};

/// Reads everything a run would read, as far as it is there. `gpu`: what every rank has; it then is a plan of
/// GPUs, also where none is here. Errors: those of the plan's inputs.
CheckReport check_report(const config::Plan& plan, const std::optional<config::GpuMemory>& gpu = {});

/// What is said of a plan that doesn't fit into its GPUs, in at most 6 lines.
std::string too_much_memory(const CheckReport& report, const config::Plan& plan);

/// The report in 80 columns.
std::string to_text(const CheckReport& report, const config::Plan& plan);

/// One object; sizes in bytes, lengths in tokens:
///   model     {class, parameters, trained, tied: [[name]]}
///   lora      null, or {r, alpha, dropout, targets: [{name, in, out, trained}]}
///   fsdp      null, or {units: [{name, class, parameters, bytes}]}
///   memory    {weights, gradients, optimizer, activations, communication, training, evaluation, saving, peak}: of one
///             rank; `training` is the sum of the first five, `peak` the largest of training, evaluation and saving.
///             device: "gpu" or "cpu", whose layers are planned; gpu: null, or {name, bytes, usable, fits,
///             alternatives: [{change, peak}]}
///   longest_batches  [{samples, source_tokens, target_tokens}]: one of them needs the `activations`
///   data      {samples, tokens, cut_off, validation_samples, source, target, classes}; source and target are
///             {shortest, longest, mean, histogram: [{from, to, samples}]}, classes a list of names
///   run       {ranks, per_device, accumulation, global_batch, updates_per_epoch, updates, epochs,
///             learning_rate: [{percent, update, value}]}
///   source    the configuration file
///   translated      [{key, value, origin, text}]: keys of other programs; `text` is what they became
///   without_effect  [{key, value, origin, text}]: `text` says why
///   missing   [text]: what `trainer launch` would be refused for
///   warnings  [text]
nlohmann::json to_json(const CheckReport& report, const config::Plan& plan);

}  // namespace trainer::worker
