// What a checkpoint holds: the table of contents that makes it readable by any strategy and number of ranks.
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
  std::string file;   // beside the manifest
  std::string entry;  // the tensor's name in that file
  nn::Part part;
  int64_t begin = 0, end = 0;
  uint32_t crc32c = 0;  // of its bytes
};

/// A parameter or a piece of optimiser state, over all ranks.
struct SavedTensor {
  std::string kind;  // "parameter", "exp_avg", …
  std::string name;  // Hugging Face's name of the parameter
  std::vector<int64_t> shape;
  std::vector<SavedPiece> pieces;
};

/// Where the run stood.
struct Progress {
  int64_t step = 0;          // updates done
  int64_t consumed = 0;      // samples consumed: the cursor of the order
  int64_t global_batch = 0;  // samples an update
  int64_t optimizer_steps = 0;
  double loss_since_log = 0;         // sum of losses since the last logged step …
  int64_t updates_since_log = 0;     // … and how many updates that was
  int64_t tokens = 0;                // target and source tokens consumed
  optim::LossScaleState loss_scale;  // of fp16
  optim::LossWatchState losses;      // what loss spikes are told by
};

struct Manifest {
  Progress progress;
  int64_t world_size = 0;
  int64_t seed = 0;
  int64_t samples = 0;   // in an epoch
  std::string strategy;  // for people
  std::string optimizer;
  std::map<std::string, double> metrics;  // contents.h
  std::vector<StoredFile> files;
  std::vector<SavedTensor> tensors;
  Conditions conditions{};
  std::vector<std::string> classes{};  // contents.h
};

/// With its seal (contents.h).
std::string to_json(const Manifest& manifest);

/// Reads `folder`/manifest.json. Errors: InputError for a file that is no manifest, damaged, or of another version.
Manifest read_manifest(const std::string& folder);
/// The same from the file's text.
Manifest manifest_from(const std::string& text, const std::string& folder);

/// What one rank wrote as text, and put together: how rank 0 learns what the others did.
std::string written_to_text(const std::vector<SavedTensor>& tensors, const std::vector<StoredFile>& files);
void merge_written(const std::string& text, Manifest& into);

}  // namespace trainer::checkpoint
