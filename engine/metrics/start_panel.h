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
  std::string device;                   // "the CPU", "NVIDIA H100 80GB HBM3"
  int64_t rank_bytes = 0;               // this rank's weights, and the gradients of those it trains
  int64_t samples = 0, validation = 0;
  int64_t step = 0, updates = 0;  // done, and in all
  int64_t global_batch = 0;
};

/// Lines of at most 80 columns:
///   model    T5ForConditionalGeneration: 223M parameters, 885k trained (0.40 %)
///   ranks    2 on the CPU, FSDP FULL_SHARD with 25 units, computing in bf16
///   memory   weights and gradients: 426 MiB a rank; plus optimizer and activations
///   updates  1638 of 8 samples = 2 ranks x 4
///   data     4361 samples to train on, 485 for validation
std::vector<std::string> start_panel(const config::Config& config, const StartFacts& facts);

}  // namespace trainer::metrics
