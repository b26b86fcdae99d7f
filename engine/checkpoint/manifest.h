// The table of contents that makes a checkpoint readable under any strategy and number of ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/contents.h"
#include "engine/optim/loss_scale.h"
#include "engine/optim/loss_watch.h"
#include "models/nn/part.h"

namespace trainer::checkpoint {

/// Elements [begin, end) of a flattened part of a tensor, stored as one tensor of a file.
struct SavedPiece {
  std::string file;   // next to the manifest
  std::string entry;  // the tensor's name in that file
  nn::Part part;
  int64_t begin = 0, end = 0;
  uint32_t crc32c = 0;  // of its bytes
};

/// A parameter or a tensor of optimizer state, over all ranks.
struct SavedTensor {
  std::string kind;  // "parameter", "exp_avg", …
  std::string name;  // Hugging Face's name of the parameter
  std::vector<int64_t> shape;
  std::vector<SavedPiece> pieces;
};

/// What decides about early stopping.
struct EvaluationsSoFar {
  double best = 0;             // value of the metric
  int64_t improvements = 0;    // evaluations that were the best so far; 0: there is no best yet
  int64_t without_better = 0;  // evaluations in a row that were no better
};

/// The progress of the run.
struct Progress {
  int64_t step = 0;          // updates done
  int64_t consumed = 0;      // samples consumed: the position in the sample order
  int64_t global_batch = 0;  // samples per update
  int64_t optimizer_steps = 0;
  double loss_since_log = 0;         // sum of losses since the last logged step …
  int64_t updates_since_log = 0;     // … and the number of these updates
  int64_t tokens = 0;                // target and source tokens consumed
  optim::LossScaleState loss_scale;  // of fp16
  optim::LossWatchState losses;      // statistics that detect loss spikes
  EvaluationsSoFar evaluations;
  std::vector<double> rewards_since_log{};  // of pairs: sums since the last logged step (nn::RewardSums); else empty
};

struct Manifest {
  Progress progress;
  int64_t world_size = 0;
  int64_t seed = 0;
  int64_t samples = 0;   // of an epoch, with those that it leaves out
  std::string strategy;  // for people
  std::string optimizer;
  std::map<std::string, double> metrics;  // contents.h
  std::vector<StoredFile> files;
  std::vector<SavedTensor> tensors;
  Conditions conditions{};
  std::vector<std::string> classes{};  // contents.h
  int64_t leader_epoch = 0;            // contents.h
  int64_t left_out = 0;                // samples that each epoch ends without
};

/// With its seal (contents.h).
std::string to_json(const Manifest& manifest);

/// Reads `folder`/manifest.json. Errors: InputError when it isn't a manifest, is damaged, or is of another version.
Manifest read_manifest(const std::string& folder);
/// The same from the file's text.
Manifest manifest_from(const std::string& text, const std::string& folder);

/// Serializes what a rank wrote, and merges it on rank 0.
std::string written_to_text(const std::vector<SavedTensor>& tensors, const std::vector<StoredFile>& files);
void merge_written(const std::string& text, Manifest& into);

}  // namespace trainer::checkpoint
