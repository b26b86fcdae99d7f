#include "models/nn/rope_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace trainer::nn {
namespace {

constexpr double kMaxNumber = 1e12;

constexpr std::array<std::pair<const char*, RopeOptions::Kind>, 7> kKinds{
    {{"default", RopeOptions::kDefault},
     {"linear", RopeOptions::kLinear},
     {"dynamic", RopeOptions::kDynamic},
     {"yarn", RopeOptions::kYarn},
     {"longrope", RopeOptions::kLongrope},
     {"llama3", RopeOptions::kLlama3},
     {"proportional", RopeOptions::kProportional}}};

const char* name_of(RopeOptions::Kind kind) {
  for (const auto& [name, known] : kKinds)
    if (known == kind) return name;
  return "";
}

void read_kind(ConfigReader& reader, RopeOptions& options) {
  const bool newer = reader.has("rope_type"), older = reader.has("type");
  const std::string key = older && !newer ? "type" : "rope_type";
  std::string given = "default";
  reader.text(key, given);
  for (const auto& [name, kind] : kKinds)
    if (given == name) {
      options.kind = kind;
      return;
    }
  std::vector<const char*> names;
  for (const auto& [name, kind] : kKinds) names.push_back(name);
  reader.wrong(key, fmt::format("one of {}", fmt::join(names, ", ")));
}

void read_optional(ConfigReader& reader, const char* key, std::optional<double>& value) {
  double read = 0;
  if (!reader.has(key)) return;
  reader.number(key, 0.0, kMaxNumber, read);
  value = read;
}

void read_factor(ConfigReader& reader, RopeOptions& o) {
  using enum RopeOptions::Kind;
  if (o.kind == kDefault) return reader.skip({"factor"});
  if (!reader.has("factor")) {
    if (o.kind == kYarn || o.kind == kLongrope)
      o.factor = static_cast<double>(o.max_positions) / static_cast<double>(o.original_positions);
    else if (o.kind != kProportional)
      reader.wrong("factor", fmt::format("a number, which rope_type {} needs", name_of(o.kind)));
  }
  reader.number("factor", 1e-6, kMaxNumber, o.factor);
}

void read_longrope(ConfigReader& reader, int64_t head_dim, RopeOptions& o) {
  for (auto& [key, factors] : {std::pair{"short_factor", &o.short_factor}, std::pair{"long_factor", &o.long_factor}}) {
    reader.numbers(key, *factors);
    if (static_cast<int64_t>(factors->size()) != head_dim / 2)
      reader.wrong(key, fmt::format("{} numbers, one for each pair of a head", head_dim / 2));
  }
  read_optional(reader, "attention_factor", o.attention_factor);
}

void read_yarn(ConfigReader& reader, RopeOptions& o) {
  reader.number("beta_fast", 1e-6, kMaxNumber, o.beta_fast);
  reader.number("beta_slow", 1e-6, kMaxNumber, o.beta_slow);
  reader.flag("truncate", o.truncate);
  read_optional(reader, "mscale", o.mscale);
  read_optional(reader, "mscale_all_dim", o.mscale_all_dim);
  read_optional(reader, "attention_factor", o.attention_factor);
}

void read_llama3(ConfigReader& reader, RopeOptions& o) {
  reader.number("low_freq_factor", 1e-6, kMaxNumber, o.low_freq_factor);
  reader.number("high_freq_factor", 1e-6, kMaxNumber, o.high_freq_factor);
  if (o.low_freq_factor == o.high_freq_factor) reader.wrong("high_freq_factor", "different from low_freq_factor");
}

/// Only "proportional" rotates part of a head: otherwise, transformers' LLaMA family rotates whole heads.
void read_part(ConfigReader& reader, RopeOptions& o) {
  reader.number("partial_rotary_factor", 0.0, 1.0, o.turned);
  if (reader.has("partial_rotary_factor") && o.kind != RopeOptions::kProportional && o.turned != 1)
    reader.wrong("partial_rotary_factor", "1 unless rope_type is proportional");
}

void read_parameters(ConfigReader& reader, int64_t head_dim, RopeOptions& o) {
  for (const char* layers : {kFullLayers, kSlidingLayers})
    if (reader.has(layers)) reader.problem(fmt::format("rope_parameters per layer type ({}) are unsupported", layers));
  reader.number("rope_theta", 1.0, kMaxNumber, o.theta);
  read_kind(reader, o);
  reader.number("original_max_position_embeddings", 1, o.original_positions);
  read_factor(reader, o);
  read_part(reader, o);
  if (o.kind == RopeOptions::kLongrope) read_longrope(reader, head_dim, o);
  if (o.kind == RopeOptions::kYarn) read_yarn(reader, o);
  if (o.kind == RopeOptions::kLlama3) read_llama3(reader, o);
  reader.refuse_unknown();
}

bool gives(ConfigReader& reader, const char* key) {
  return reader.has(key) && !reader.value(key).empty();
}

}  // namespace

RopeOptions read_rope(ConfigReader& reader, int64_t max_positions, int64_t head_dim, double default_theta) {
  RopeOptions o{.theta = default_theta};
  o.max_positions = o.original_positions = max_positions;
  reader.number("original_max_position_embeddings", 1, o.original_positions);
  reader.number("rope_theta", 1.0, kMaxNumber, o.theta);
  const bool older = gives(reader, "rope_scaling");
  if (older || gives(reader, "rope_parameters")) {
    ConfigReader parameters = reader.below(older ? "rope_scaling" : "rope_parameters");
    read_parameters(parameters, head_dim, o);
  }
  read_part(reader, o);
  return o;
}

RopeByLayer read_rope_by_layer(ConfigReader& reader, int64_t max_positions, int64_t head_dim) {
  RopeByLayer o;
  for (RopeOptions* layers : {&o.full, &o.sliding}) layers->max_positions = layers->original_positions = max_positions;
  reader.number("rope_theta", 1.0, kMaxNumber, o.full.theta);
  reader.number("rope_local_base_freq", 1.0, kMaxNumber, o.sliding.theta);
  if (gives(reader, "rope_parameters")) {
    ConfigReader kinds = reader.below("rope_parameters");
    for (const auto& [key, layers] : {std::pair{kFullLayers, &o.full}, std::pair{kSlidingLayers, &o.sliding}}) {
      if (!gives(kinds, key)) {
        kinds.wrong(key, "the rotary positions of these layers, an object");
        continue;
      }
      ConfigReader parameters = kinds.below(key);
      read_parameters(parameters, head_dim, *layers);
    }
    kinds.refuse_unknown();
  }
  if (gives(reader, "rope_scaling")) {
    ConfigReader parameters = reader.below("rope_scaling");
    read_parameters(parameters, head_dim, o.full);
  }
  return o;
}

nlohmann::json rope_json(const RopeByLayer& o) {
  return {{kFullLayers, rope_json(o.full)}, {kSlidingLayers, rope_json(o.sliding)}};
}

int64_t RopeOptions::reach() const {
  const auto stretched = [this](int64_t positions) {
    return std::max(max_positions, static_cast<int64_t>(factor * static_cast<double>(positions)));
  };
  if (kind == kDynamic) return 0;
  if (kind == kLinear) return stretched(max_positions);
  return kind == kYarn ? stretched(original_positions) : max_positions;
}

nlohmann::json rope_json(const RopeOptions& o) {
  using enum RopeOptions::Kind;
  nlohmann::json json = {{"rope_type", name_of(o.kind)}, {"rope_theta", o.theta}};
  if (o.kind != kDefault) json["factor"] = o.factor;
  if (o.kind == kYarn || o.kind == kLongrope || o.kind == kLlama3)
    json["original_max_position_embeddings"] = o.original_positions;
  if (o.attention_factor) json["attention_factor"] = *o.attention_factor;
  if (o.kind == kYarn) {
    json.update({{"beta_fast", o.beta_fast}, {"beta_slow", o.beta_slow}, {"truncate", o.truncate}});
    if (o.mscale) json["mscale"] = *o.mscale;
    if (o.mscale_all_dim) json["mscale_all_dim"] = *o.mscale_all_dim;
  }
  if (o.kind == kLongrope) json.update({{"short_factor", o.short_factor}, {"long_factor", o.long_factor}});
  if (o.kind == kLlama3)
    json.update({{"low_freq_factor", o.low_freq_factor}, {"high_freq_factor", o.high_freq_factor}});
  if (o.kind == kProportional) json["partial_rotary_factor"] = o.turned;
  return json;
}

}  // namespace trainer::nn
