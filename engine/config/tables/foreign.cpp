// Sections of Accelerate's file that are recognized but not used.
#include "engine/config/tables.h"

namespace trainer::config {

const Entries& fp8_table() {
  const char* const why = "fp8 is not supported";
  static const Entries entries = foreign_table(
      no_effect("fp8_backend", why).alias("backend"),
      no_effect("fp8_use_autocast_during_eval", why).alias("use_autocast_during_eval").of<bool>(),
      no_effect("fp8_margin", why).alias("margin").of<int64_t>(),
      no_effect("fp8_interval", why).alias("interval").of<int64_t>(), no_effect("fp8_format", why).alias("format"),
      no_effect("fp8_amax_history_len", why).alias("amax_history_len"),
      no_effect("fp8_amax_history_length", why).alias("amax_history_length"),
      no_effect("fp8_amax_compute_algo", why).alias("amax_compute_algo"),
      no_effect("fp8_amax_compute_algorithm", why).alias("amax_compute_algorithm"),
      no_effect("fp8_override_linear_precision", why).alias("override_linear_precision"),
      no_effect("fp8_opt_level", why).alias("opt_level"),
      no_effect("fp8_optimization_level", why).alias("optimization_level"),
      no_effect("fp8_enable_fsdp_float8_all_gather", why).alias("enable_fsdp_float8_all_gather").of<bool>(),
      no_effect("fp8_pad_inner_dim", why).alias("pad_inner_dim").of<bool>());
  return entries;
}

const Entries& dynamo_table() {
  const char* const why = "there is no Python code to compile";
  static const Entries entries = foreign_table(
      no_effect("dynamo_backend", why)
          .alias("backend")
          .one_of({"NO", "EAGER", "AOT_EAGER", "INDUCTOR", "AOT_TS_NVFUSER", "NVPRIMS_NVFUSER", "CUDAGRAPHS", "OFI",
                   "FX2TRT", "ONNXRT", "TENSORRT", "AOT_TORCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE",
                   "TORHCHXLA_TRACE_ONCE", "IPEX", "TVM", "HPU_BACKEND", "NEURON"}),
      no_effect("dynamo_mode", why)
          .alias("mode")
          .one_of({"default", "reduce-overhead", "max-autotune"})
          .harmless({"default"}),
      no_effect("dynamo_use_fullgraph", why).alias("use_fullgraph").of<bool>(),
      no_effect("dynamo_use_dynamic", why).alias("use_dynamic").of<bool>(),
      no_effect("dynamo_use_regional_compilation", why).alias("use_regional_compilation").of<bool>());
  return entries;
}

const Entries& mpirun_table() {
  const char* const why = "`trainer launch` starts the ranks of this machine itself";
  static const Entries entries = foreign_table(no_effect("mpirun_hostfile", why), no_effect("mpirun_ccl", why));
  return entries;
}

const Entries& tp_table() {
  static const Entries entries =
      foreign_table(translated("tp_size", "The same as parallelism_config_tp_size.").flag("").of<int64_t>());
  return entries;
}

const Entries& ipex_table() {
  const char* const why = "PyTorch is not used";
  static const Entries entries = foreign_table(no_effect("ipex", why).of<bool>(), no_effect("use_xpu", why).of<bool>());
  return entries;
}

/// TrainingArguments' `accelerator_config`.
const Entries& accelerator_table() {
  static const Entries entries = foreign_table(
      unsupported("split_batches",
                  "per_device_train_batch_size counts the samples of one rank; global_batch_size those of all")
          .of<bool>(),
      no_effect("dispatch_batches", "every rank reads its own samples").of<bool>(),
      no_effect("even_batches", "no sample is repeated to even out batches").harmless({"true", "false"}).of<bool>(),
      no_effect("use_seedable_sampler", "the sample order always follows from seed")
          .harmless({"true", "false"})
          .of<bool>(),
      no_effect("non_blocking", "tensors are copied to devices when they are needed").of<bool>(),
      no_effect("gradient_accumulation_kwargs", "gradient_accumulation_steps is the only setting"),
      no_effect("use_configured_state", "there is no AcceleratorState to reuse").of<bool>());
  return entries;
}

}  // namespace trainer::config
