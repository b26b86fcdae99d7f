// Parts of adapter_config.json that several kinds of adapters have.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/adapters/adapter_kind.h"

namespace trainer::config {

/// A list of names, or a pattern; null: empty.
NamesOrPattern to_names(const Json& value);

/// The list at `key`; a single value is a list of one, a missing key an empty list.
template <class T>
std::vector<T> to_list(const Json& file, const char* key) {
  const Json value = file.value(key, Json());
  if (value.is_null()) return {};
  return value.is_array() ? value.get<std::vector<T>>() : std::vector<T>{value.get<T>()};
}

/// r and rank_pattern. Errors: InputError if a rank is below 1.
void read_ranks(const Json& file, const std::string& where, LoraConfig& options);
/// layers_to_transform and layers_pattern.
void read_blocks(const Json& file, LoraConfig& options);
/// num_virtual_tokens. Errors: InputError if it isn't a sensible number.
void read_virtual_tokens(const Json& file, const std::string& where, LoraConfig& options);
/// Reports that training can't continue from the adapter at `where`, which holds a network's output.
[[noreturn]] void refuse_network_output(const std::string& where, const std::string& peft_type);

}  // namespace trainer::config
