// The keys of optimizer and scheduler in a ds_config.json.
#include "engine/config/ds_config.h"

namespace trainer::config {
namespace {

const Entries& optimizer_params_table() {
  using C = DsOptimizerParams;
  const char* const variant = "AdamW and SGD are supported in their plain form";
  const char* const other = "it belongs to an optimizer that is not supported";
  static const Entries entries = table<C>(
      option("lr", &C::lr).at_least(0.0), option("betas", &C::betas), option("eps", &C::eps).above(0.0),
      option("weight_decay", &C::weight_decay).at_least(0.0), option("momentum", &C::momentum).at_least(0.0).below(1.0),
      option("adam_w_mode", &C::adam_w_mode), option("torch_adam", &C::torch_adam),
      unsupported("bias_correction", variant).harmless({"true"}).of<bool>(),
      translated("max_grad_norm", "Accepted only together with the same gradient_clipping."),
      unsupported("amsgrad", variant).of<bool>(), unsupported("nesterov", variant).of<bool>(),
      unsupported("dampening", variant), unsupported("maximize", variant).of<bool>(),
      no_effect("fused", "training.optim selects the implementation"),
      no_effect("foreach", "training.optim selects the implementation"),
      no_effect("set_grad_none", "gradients keep their own buffers").harmless({"true"}),
      no_effect("fp32_optimizer_states", "they are always in fp32").harmless({"true"}),
      unsupported("freeze_step", other), unsupported("cuda_aware", other), unsupported("comm_backend_name", other),
      unsupported("max_coeff", other), unsupported("min_coeff", other), unsupported("muon_lr", other),
      unsupported("adam_lr", other), unsupported("ns_method", other));
  return entries;
}

const Entries& scheduler_params_table() {
  using C = DsSchedulerParams;
  const char* const other = "it belongs to LRRangeTest or OneCycle, which are not supported";
  static const Entries entries = table<C>(
      option("warmup_min_lr", &C::warmup_min_lr).at_least(0.0),
      option("warmup_max_lr", &C::warmup_max_lr).at_least(0.0),
      option("warmup_num_steps", &C::warmup_num_steps).at_least(0),
      option("warmup_type", &C::warmup_type).one_of({"log", "linear"}),
      option("total_num_steps", &C::total_num_steps).at_least(1),
      option("warmup_min_ratio", &C::warmup_min_ratio).at_least(0.0).at_most(1.0),
      option("cos_min_ratio", &C::cos_min_ratio).at_least(0.0).at_most(1.0),
      unsupported("last_batch_iteration", "the checkpoint determines where a run resumes").harmless({"-1"}),
      no_effect("lr_range_test_min_lr", other), no_effect("lr_range_test_step_size", other),
      no_effect("lr_range_test_step_rate", other), no_effect("lr_range_test_staircase", other),
      no_effect("cycle_min_lr", other), no_effect("cycle_max_lr", other), no_effect("cycle_first_step_size", other),
      no_effect("cycle_first_stair_count", other), no_effect("cycle_second_step_size", other),
      no_effect("cycle_second_stair_count", other), no_effect("cycle_momentum", other),
      no_effect("cycle_min_mom", other), no_effect("cycle_max_mom", other), no_effect("decay_step_size", other),
      no_effect("decay_lr_rate", other), no_effect("decay_mom_rate", other));
  return entries;
}

}  // namespace

const Entries& ds_optimizer_table() {
  static const Entries entries = table<DsOptimizer>(
      option("type", &DsOptimizer::type), section("params", &DsOptimizer::params, optimizer_params_table()),
      no_effect("legacy_fusion", "training.optim selects the implementation").of<bool>());
  return entries;
}

const Entries& ds_scheduler_table() {
  static const Entries entries = table<DsScheduler>(option("type", &DsScheduler::type),
                                                    section("params", &DsScheduler::params, scheduler_params_table()));
  return entries;
}

}  // namespace trainer::config
