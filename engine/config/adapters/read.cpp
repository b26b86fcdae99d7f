#include "engine/config/adapters/read.h"

#include "engine/base/errors.h"

namespace trainer::config {

NamesOrPattern to_names(const Json& value) {
  NamesOrPattern out;
  if (value.is_string())
    out.pattern = value.get<std::string>();
  else if (value.is_array())
    out.names = value.get<std::vector<std::string>>();
  return out;
}

void read_ranks(const Json& file, const std::string& where, LoraConfig& o) {
  o.r = file.value("r", o.r);
  o.rank_pattern = file.value("rank_pattern", o.rank_pattern);
  if (o.r < 1) throw InputError("{}: r is {}; it must be at least 1.", where, file.value("r", Json()).dump());
  for (const auto& [pattern, rank] : o.rank_pattern)
    if (rank < 1) throw InputError("{}: rank_pattern: {} is {}; it must be at least 1.", where, pattern, rank);
}

void read_blocks(const Json& file, LoraConfig& o) {
  o.layers_to_transform = to_list<int64_t>(file, "layers_to_transform");
  o.layers_pattern = to_list<std::string>(file, "layers_pattern");
}

void read_virtual_tokens(const Json& file, const std::string& where, LoraConfig& o) {
  o.num_virtual_tokens = file.value("num_virtual_tokens", int64_t{0});
  if (o.num_virtual_tokens < 1 || o.num_virtual_tokens > int64_t{1} << 20)
    throw InputError("{}: num_virtual_tokens is {}; it must be at least 1.", where,
                     file.value("num_virtual_tokens", Json()).dump());
}

void refuse_network_output(const std::string& where, const std::string& peft_type) {
  throw InputError("{}: a {} adapter contains the output of its network, not the network: it can't be trained further.",
                   where, peft_type);
}

}  // namespace trainer::config
