// What a run is about to do, in a few lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::metrics {

struct StartFacts {
  std::string model_class;
  int64_t parameters = 0, trained = 0;  // elements, tied weights once
  int64_t units = 0;                    // FSDP's
  int64_t ranks = 1, data_ranks = 1;    // data_ranks: those that train on different samples
  std::string mesh;                     // "2 data x 2 tensor"; "": one axis
  std::string device;                   // "the CPU", "NVIDIA H100 80GB HBM3"
  int64_t rank_bytes = 0;               // this rank's weights, and the gradients of those it trains
  int64_t planned_bytes = 0;            // of a rank's tensors at most, by the memory plan; 0: not known
  int64_t samples = 0, validation = 0;
  int64_t step = 0, updates = 0;  // done, and in all
  int64_t global_batch = 0;
};

/// Lines of at most 80 columns:
///   model    T5ForConditionalGeneration: 223M parameters, 885k trained (0.40 %)
///   ranks    2 on the CPU, FSDP FULL_SHARD with 25 units, computing in bf16
///   mesh     8 ranks = 2 data x 2 tensor x 2 pipeline              (if it has several axes)
///   memory   1.2 GiB a rank at most, of which weights and gradients 426 MiB
///   updates  1638 of 8 samples = 2 ranks x 4
///   data     4361 samples to train on, 485 for validation
std::vector<std::string> start_panel(const config::Config& config, const StartFacts& facts);

}  // namespace trainer::metrics
