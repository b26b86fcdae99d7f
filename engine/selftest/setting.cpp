#include "engine/selftest/setting.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace trainer::selftest {

std::string Setting::name() const {
  return fmt::format("{} {} {} x{}{}{}", model.name, lora ? "LoRA" : "full", strategy.name, micro_batches,
                     recompute ? " recompute" : "", bf16 ? " bf16" : "");
}

Setting Setting::reference() const {
  Setting alone = *this;
  alone.strategy = {"one rank"};
  alone.micro_batches = 1;
  alone.recompute = false;
  return alone;
}

config::Plan plan_of(const Setting& s) {
  config::Plan plan;
  plan.source = "selftest";
  config::Config& c = plan.config;
  c.seed = 3;
  c.model.config = s.model.config;
  c.data.task = s.model.task;
  c.distributed_type = s.strategy.type;
  c.num_processes = s.strategy.ranks;
  c.parallelism_config = s.strategy.degrees;
  c.devices = s.strategy.devices;
  c.fsdp_config.sharding_strategy = s.strategy.sharding;
  c.fsdp_config.offload_params = s.strategy.offload;
  c.training.gradient_checkpointing = s.recompute;
  c.training.dropout = s.dropout;
  if (s.dropout) c.training.neftune_noise_alpha = 0.5;
  c.training.ddp_bucket_cap_mb = 0.01;  // several buckets even for a tiny model
  const int64_t takers = plan.data_ranks() * std::max<int64_t>(1, std::ssize(c.devices));
  const int64_t share = (kGlobalBatch + takers - 1) / takers;
  c.training.per_device_train_batch_size = (share + s.micro_batches - 1) / s.micro_batches;
  if (s.bf16) c.mixed_precision = config::MixedPrecision::kBf16;
  if (s.lora) {
    c.lora.emplace();
    c.lora->r = 3;
    c.lora->lora_alpha = 1;  // B is as large as A: more would saturate attention and amplify rounding
    c.lora->lora_dropout = 0.2;
    c.lora->init_lora_weights = "false";  // B is not zero, so A has gradients from the start
  }
  return plan;
}

}  // namespace trainer::selftest
