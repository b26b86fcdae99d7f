#include "engine/weights/megatron_layout.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace trainer::checkpoint {
namespace {

constexpr int64_t kVocabularyMultiple = 128;  // --make-vocab-size-divisible-by

/// "model.layers.17.mlp.x" is 17 and "mlp.x".
bool split_layer(std::string_view name, int64_t& layer, std::string_view& rest) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const auto digits = static_cast<size_t>(end - name.data());
  if (error != std::errc{} || digits >= name.size() || name[digits] != '.') return false;
  rest = name.substr(digits + 1);
  return true;
}

}  // namespace

bool has_megatron_layout(const std::string& model_type) {
  for (const char* const family : {"llama", "mistral", "qwen2", "qwen3"})
    if (model_type == family) return true;
  return false;
}

/// A Hugging Face name or its prefix, and Megatron's equivalent.
struct MegatronLayout::Rule {
  std::string_view ours, theirs, other;  // other: when norms are not fused
  Split split;
};

MegatronLayout::MegatronLayout(models::llama::Config config, const MegatronDegrees& degrees)
    : MegatronLayout(config, degrees.tensor,
                     std::vector<int64_t>(static_cast<size_t>(degrees.pipeline), config.layers / degrees.pipeline), 0) {
  const int64_t multiple = kVocabularyMultiple * tensor_;
  vocabulary_ = (config_.vocab_size + multiple - 1) / multiple * multiple;
}

std::string MegatronLayout::problem(const models::llama::Config& c, const MegatronDegrees& degrees) {
  const auto whole = [](const char* what, int64_t size, const char* ranks, int64_t count) {
    return size % count == 0 ? "" : fmt::format("{} is {}, which is not a multiple of {} {}", what, size, ranks, count);
  };
  const std::pair<const char*, int64_t> shared[] = {{"num_key_value_heads", c.kv_heads},
                                                    {"num_attention_heads", c.heads},
                                                    {"intermediate_size", c.intermediate_size}};
  for (const auto& [what, size] : shared)
    if (std::string text = whole(what, size, "tensor parallel", degrees.tensor); !text.empty()) return text;
  return whole("num_hidden_layers", c.layers, "pipeline parallel", degrees.pipeline);
}

std::optional<MegatronPlace> MegatronLayout::place(const std::string& name, const nn::Shape& whole) const {
  static constexpr Rule kLayer[] = {
      {"input_layernorm.weight", "self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight",
       Split::kWhole},
      {"self_attn.q_proj.", "self_attention.linear_qkv.", "", Split::kQuery},
      {"self_attn.k_proj.", "self_attention.linear_qkv.", "", Split::kKey},
      {"self_attn.v_proj.", "self_attention.linear_qkv.", "", Split::kValue},
      {"self_attn.q_norm.", "self_attention.q_layernorm.", "", Split::kWhole},
      {"self_attn.k_norm.", "self_attention.k_layernorm.", "", Split::kWhole},
      {"self_attn.o_proj.weight", "self_attention.linear_proj.weight", "", Split::kColumns},
      {"self_attn.o_proj.bias", "self_attention.linear_proj.bias", "", Split::kWhole},
      {"post_attention_layernorm.weight", "mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight",
       Split::kWhole},
      {"mlp.gate_proj.", "mlp.linear_fc1.", "", Split::kGate},
      {"mlp.up_proj.", "mlp.linear_fc1.", "", Split::kUp},
      {"mlp.down_proj.weight", "mlp.linear_fc2.weight", "", Split::kColumns},
      {"mlp.down_proj.bias", "mlp.linear_fc2.bias", "", Split::kWhole},
  };
  static constexpr Rule kOutside[] = {
      {"model.embed_tokens.weight", "embedding.word_embeddings.weight", "", Split::kVocabulary},
      {"model.norm.weight", "decoder.final_layernorm.weight", "", Split::kWhole},
      {"lm_head.weight", "output_layer.weight", "", Split::kVocabulary},
  };
  int64_t layer = 0, stage = 0;
  std::string_view rest = name;
  const bool of_layer = split_layer(name, layer, rest);
  const auto begins = [&](const Rule& rule) { return rest.starts_with(rule.ours); };
  const Rule* const first = of_layer ? std::begin(kLayer) : std::begin(kOutside);
  const Rule* const last = of_layer ? std::end(kLayer) : std::end(kOutside);
  const Rule* const rule = std::find_if(first, last, begins);
  if (rule == last) return std::nullopt;
  MegatronPlace place = cut(rule->split, whole);
  if (of_layer) {
    for (; stage < stages() && layer >= stages_[static_cast<size_t>(stage)]; ++stage)
      layer -= stages_[static_cast<size_t>(stage)];
    if (stage == stages()) return std::nullopt;
  } else if (rule != std::begin(kOutside)) {
    stage = stages() - 1;
  }
  place.stage = stage;
  const std::string prefix = of_layer ? fmt::format("decoder.layers.{}.", layer) : "";
  place.name = fmt::format("{}{}{}", prefix, rule->theirs, rest.substr(rule->ours.size()));
  if (!rule->other.empty()) place.other_name = prefix + std::string(rule->other);
  return place;
}

MegatronPlace MegatronLayout::cut(Split split, const nn::Shape& whole) const {
  MegatronPlace place;
  place.shape = whole;
  const int64_t rows = whole.at(0), columns = whole.size() == 2 ? whole[1] : 1;
  int64_t& here = place.shape[0];
  switch (split) {
    case Split::kWhole:
      for (int64_t t = 0; t < tensor_; ++t) place.blocks.push_back({t, 0, rows, 0, columns, 0});
      break;
    case Split::kQuery:
    case Split::kKey:
    case Split::kValue:
      cut_heads(split, place, columns);
      break;
    case Split::kGate:
    case Split::kUp:
      here = 2 * rows / tensor_;
      for (int64_t t = 0; t < tensor_; ++t)
        place.blocks.push_back({t, t * here / 2, here / 2, 0, columns, split == Split::kGate ? 0 : here / 2});
      break;
    case Split::kColumns:
      place.shape.at(1) = columns / tensor_;
      for (int64_t t = 0; t < tensor_; ++t) place.blocks.push_back({t, 0, rows, t * place.shape[1], place.shape[1], 0});
      break;
    case Split::kVocabulary:
      here = vocabulary_ / tensor_;
      for (int64_t t = 0; t < tensor_ && t * here < rows; ++t)
        place.blocks.push_back({t, t * here, std::min(here, rows - t * here), 0, columns, 0});
      break;
  }
  return place;
}

/// A group: the queries of one key and value, that key, that value.
void MegatronLayout::cut_heads(Split split, MegatronPlace& place, int64_t columns) const {
  const int64_t width = config_.head_dim, queries = config_.heads / config_.kv_heads * width;
  const int64_t group = queries + 2 * width, groups = config_.kv_heads / tensor_;
  const bool of_queries = split == Split::kQuery;
  const int64_t rows = of_queries ? queries : width;
  const int64_t inside = of_queries ? 0 : split == Split::kKey ? queries : queries + width;
  place.shape[0] = groups * group;
  for (int64_t g = 0; g < config_.kv_heads; ++g)
    place.blocks.push_back({g / groups, g * rows, rows, 0, columns, g % groups * group + inside});
}

}  // namespace trainer::checkpoint
