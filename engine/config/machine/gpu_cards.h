// What GPUs can do, by name: for planning runs on GPUs that this machine doesn't have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::config {

/// Vendor's figures, except for `gib`. Rates are dense (without sparsity), with sums in fp32 and at the boost clock.
struct GpuCard {
  const char* model;   // lowercase letters and digits of its name
  int64_t size;        // GB of memory, as sold
  double gib;          // memory that CUDA reports
  const char* name;    // "H100 80GB"
  double half;         // TFLOP/s of matrix products in bf16 and fp16
  double tf32;         // in TF32; 0: not supported, and neither is bf16
  double fp32;         // TFLOP/s in fp32
  double memory;       // GB/s of memory
  double link;         // GB/s in one direction to the other GPUs of a machine: NVLink, or else PCIe
  double best = 0.8;   // the part of `half` that the best of many shapes reaches
  bool cudnn = false;  // cuDNN's attention is faster than flash attention: Hopper, and Blackwell's data center cards

  int64_t bytes() const;  // of memory
};

/// The cards that a name as the vendor, the driver or people write it may mean: "H100", "NVIDIA A100-SXM4-80GB",
/// "rtx 4090". Two for a card that is sold with different memories.
std::vector<const GpuCard*> cards_named(const std::string& text);

/// The one card of that name. Errors: ConfigError that begins with `option` and lists the cards.
const GpuCard& card_named(const std::string& option, const std::string& text);

/// "T4, V100 16GB, …".
std::string all_card_names();

}  // namespace trainer::config
