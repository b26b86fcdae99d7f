// How long a GPU and its links take for what a dry run records.
#pragma once

#include "engine/config/machine/gpu_cards.h"
#include "engine/dist/dry_trace.h"

namespace trainer::train {

/// The GPUs of a run.
struct Cluster {
  config::GpuCard card;
  int64_t gpus_per_machine = 1;
  double network = 50e9;  // bytes per second and direction, of each GPU's link to other machines
};

// Note [Efficiencies]
// The part of the data sheet's rates that programs reach. "Measured" figures are from stas00/ml-engineering (compute/
// accelerator and network, read in 2026); "assumed" ones have no source.
struct Efficiency {
  // Of the best of many shapes in bf16 and fp16, which is measured (GpuCard::best): a training step's shapes. Assumed.
  static constexpr double kShapes = 0.9;
  static constexpr double kFloatProducts = 0.8;  // fp32 and TF32; assumed
  // Flash attention, as libtorch has it (version 2), on H100. Source: FlashAttention-3 (Shah et al. 2024), abstract.
  static constexpr double kFlashAttention = 0.35;
  // cuDNN's, forward and backward, without what its mask hides. Measured on H200 (docs/gpu.md), for samples of 4096
  // tokens and heads of 128 elements; assumed for B200.
  static constexpr double kCudnnAttention = 0.4;
  // Memory-efficient attention, of the rate of products in its dtype. Assumed; about that of xformers on A100 in the
  // figures of FlashAttention-2 (Dao 2023).
  static constexpr double kEfficientAttention = 0.2;
  static constexpr double kMemory = 0.8;  // of all operators that aren't bound by products; assumed
  // Measured: all-gather and reduce-scatter on 8 H200 361 of 450 GB/s; all-reduce on 8 A100 235 of 300 GB/s. (The
  // all-reduce on Hopper's switches is up to 1.3 times as fast; not included.)
  static constexpr double kLink = 0.8;
  // Measured: all-reduce on 4 machines with 8 links of 50 GB/s each 377 to 382 of 400 GB/s.
  static constexpr double kNetwork = 0.93;
  // Measured: all-reduce of 1 MiB 51 us on one machine, 378 us on 4, of which 3 and 6 are for the bytes.
  static constexpr double kLatency = 45e-6, kNetworkLatency = 165e-6;  // the latter for each doubling of the machines
  static constexpr double kLaunch = 5e-6;     // of the host for each operator, with autograd; assumed
  static constexpr double kKernel = 2e-6;     // of the device, at least, for each operator; assumed
  static constexpr double kHostRead = 20e-6;  // of the host for each value it reads from the device; assumed
};

/// FLOP/s of matrix products in `dtype`, by the data sheet. fp32 uses TF32 where libtorch is set to
/// (at::Context::allowTF32CuBLAS).
double peak_flops(const config::GpuCard& card, at::ScalarType dtype);

/// Seconds of the device for an operator: the longer of its products and its bytes. Fused attention has its own
/// efficiency, and skips what its mask hides.
double seconds_of(const dist::DryOperator& op, const config::GpuCard& card);

/// Seconds from start to end of a collective that no other disturbs. Each GPU sends as in a ring; what leaves a machine
/// goes over the links of all its GPUs that take part.
double seconds_of(const dist::DryCollective& collective, const Cluster& cluster);

/// Machines that take part.
int64_t machines_of(const dist::DryCollective& collective, const Cluster& cluster);

/// Parses "400Gb", "400Gb/s", "3.2Tb", "50GB": bytes per second. Errors: ConfigError.
double network_named(const std::string& text);

}  // namespace trainer::train
