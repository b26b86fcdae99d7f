#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/part.h"

namespace trainer::parallel {

/// A parameter of the whole model, and this rank's piece of it. Checkpoint, optimiser, clipping and export see nothing
/// else, so any strategy and number of ranks can load what any other saved.
struct LogicalTensor {
  std::string name;                  // Hugging Face's
  std::vector<std::string> aliases;  // tied names
  nn::Shape shape;                   // of the whole tensor
  bool trainable = true;
  int64_t begin = 0, end = 0;  // this rank's piece: elements [begin, end) of the flattened part
  bool replicated = false;     // every rank holds it whole
  at::Tensor value;            // [end - begin], fp32 when trainable
  at::Tensor grad;             // [end - begin] fp32 after a backward; undefined when frozen
  nn::Part part;               // the whole, but where layers are shared
  // Where some ranks hold the same piece: how many, and which of them this one is. The first one counts for all.
  int64_t copies = 1, copy = 0;

  int64_t numel() const {
    int64_t n = 1;
    for (const int64_t size : shape) n *= size;
    return n;
  }
};

}  // namespace trainer::parallel
