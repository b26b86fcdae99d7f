// All rules, by topic.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/rules/rules.h"

namespace trainer::config {

std::vector<Rule> rules_of_ranks();
std::vector<Rule> rules_of_inputs();
std::vector<Rule> rules_of_adapters();
std::vector<Rule> rules_of_quantization();
std::vector<Rule> rules_of_preferences();
std::vector<Rule> rules_of_training();

/// The key that sets the parallelism, with its value: distributed_type, unless another key was translated to it.
std::pair<std::string, std::string> type_as_given(const Config& config, const Judge& judge);
/// The number of devices of a process, each of which takes a micro-batch.
int64_t devices_of(const Config& config);

}  // namespace trainer::config
