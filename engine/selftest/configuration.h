// `trainer test`: one configuration's own strategy, compared with one rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/dist/comm.h"
#include "engine/selftest/run.h"

namespace trainer::selftest {

/// A tiny model to train, as the user's configuration distributes it, and alone.
struct ConfigurationCase {
  Setting setting;
  config::Plan plan, reference;
};

/// "FSDP FULL_SHARD, tp_size 2"
std::string strategy_name(const config::Config& config);

/// Every tiny model that the strategy of `user` supports, in full and with LoRA. From `user` come the type of
/// distribution and its sizes, sharding, offload, precision, recomputation, accumulation, backend and devices; not its
/// model, data, optimizer and lora, nor what approximates gradients or weights (ddp_comm_hook, local_sgd_steps).
std::vector<ConfigurationCase> configuration_cases(const config::Plan& user);

/// Collective over `world`, the ranks of the configuration. Rank 0 passes every result to `done` and returns all.
std::vector<Result> test_configuration(const std::vector<ConfigurationCase>& cases, dist::Comm& world,
                                       const std::function<void(const Result&)>& done);

}  // namespace trainer::selftest
