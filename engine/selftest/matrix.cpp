#include "engine/selftest/matrix.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include <fmt/format.h>

namespace trainer::selftest {
namespace {

using config::DistributedType;
using config::ShardingStrategy;

/// Sizes of a transformer; some are stored as factors, so that every size is a valid multiple.
struct Sizes {
  int64_t vocabulary = 53, layers = 3, heads = 4, kv_heads = 2, head = 6, hidden = 20, inner = 28;
};

TinyModel t5(const Sizes& s, bool gated) {
  return {
      "T5",
      config::Task::kSeq2SeqLm,
      fmt::format(R"({{"model_type": "t5", "vocab_size": {}, "d_model": {}, "d_kv": {}, "d_ff": {}, "num_layers": {},
            "num_heads": {}, "dropout_rate": 0.2, "feed_forward_proj": "{}", "tie_word_embeddings": {}}})",
                  s.vocabulary, s.hidden, s.head, s.inner, s.layers, s.heads, gated ? "gated-gelu" : "relu", !gated),
      true,
      false,
      s.vocabulary};
}

TinyModel gpt2(const Sizes& s) {
  return {
      "GPT-2",
      config::Task::kCausalLm,
      fmt::format(R"({{"model_type": "gpt2", "vocab_size": {}, "n_embd": {}, "n_inner": {}, "n_layer": {}, "n_head": {},
            "n_positions": 64, "resid_pdrop": 0.2, "embd_pdrop": 0.2, "attn_pdrop": 0.2}})",
                  s.vocabulary, s.heads * s.head, s.inner, s.layers, s.heads),
      true,
      true,
      s.vocabulary};
}

TinyModel llama(const Sizes& s) {
  return {"LLaMA",
          config::Task::kCausalLm,
          fmt::format(R"({{"model_type": "llama", "vocab_size": {}, "hidden_size": {}, "intermediate_size": {},
            "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {},
            "attention_dropout": 0.2}})",
                      s.vocabulary, s.hidden, s.inner, s.layers, s.heads, s.kv_heads, s.head),
          true,
          true,
          s.vocabulary};
}

/// Scores around the soft caps, and windows shorter than the samples.
TinyModel gemma(const Sizes& s, bool third) {
  return {third ? "Gemma 3" : "Gemma 2",
          config::Task::kCausalLm,
          fmt::format(R"({{"model_type": "{}", "vocab_size": {}, "hidden_size": {}, "intermediate_size": {},
            "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {},
            "attention_dropout": 0.2, "sliding_window": 4, "query_pre_attn_scalar": 5, "final_logit_softcapping": 2.0,
            {}}})",
                      third ? "gemma3_text" : "gemma2", s.vocabulary, s.hidden, s.inner, s.layers, s.heads, s.kv_heads,
                      s.head, third ? R"("sliding_window_pattern": 2)" : R"("attn_logit_softcapping": 1.5)"),
          true,
          true,
          s.vocabulary,
          third ? 2e-6 : 1e-6};
}

TinyModel bert(const Sizes& s) {
  return {"BERT",
          config::Task::kSequenceClassification,
          fmt::format(R"({{"model_type": "bert", "vocab_size": {}, "hidden_size": {}, "intermediate_size": {},
            "num_hidden_layers": {}, "num_attention_heads": {}, "max_position_embeddings": 64,
            "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2, "id2label": {{"0": "a", "1": "b", "2": "c"}}}})",
                      s.vocabulary, s.heads * s.head, s.inner + 1, s.layers, s.heads),
          false,
          false,
          s.vocabulary};
}

Strategy sharded(const char* name, int ranks, ShardingStrategy sharding, bool share_memory = true) {
  return {fmt::format("FSDP {} {}{}", name, ranks, share_memory ? "" : " sent"),
          ranks,
          DistributedType::kFsdp,
          sharding,
          {},
          {},
          share_memory};
}

Strategy meshed(std::string name, int ranks, DistributedType type, config::ParallelismConfig degrees) {
  Strategy strategy{std::move(name), ranks, type};
  strategy.degrees = std::move(degrees);
  return strategy;
}

/// Two stages, each sharded over two ranks without shared memory.
Strategy sent_stages(std::string name, ShardingStrategy sharding) {
  Strategy strategy = meshed(std::move(name), 4, DistributedType::kFsdp, {.pp_size = 2});
  strategy.sharding = sharding;
  strategy.share_memory = false;
  return strategy;
}

Strategy offloaded(Strategy strategy) {
  strategy.name += " offload";
  strategy.offload = true;
  return strategy;
}

/// The choices of a setting, as indices: model, LoRA, strategy, micro-batches, recomputation.
using Choices = std::array<size_t, 5>;

struct Candidate {
  Choices choices;
  Setting setting;
};

std::vector<Candidate> candidates(int ranks, bool on_devices) {
  std::vector<Candidate> all;
  const auto models = tiny_models();
  const auto ways = strategies(ranks, on_devices);
  for (size_t m = 0; m < models.size(); ++m)
    for (size_t lora = 0; lora < 2; ++lora)
      for (size_t way = 0; way < ways.size(); ++way)
        for (size_t micro = 0; micro < 2; ++micro)
          for (size_t recompute = 0; recompute < 2; ++recompute)
            if (supports(models[m], ways[way]))
              all.push_back({{m, lora, way, micro, recompute},
                             {models[m], ways[way], lora == 1, micro == 0 ? 1 : 4, recompute == 1, false}});
  return all;
}

using Pair = std::array<size_t, 4>;  // choice a with its value, choice b with its value

std::vector<Pair> pairs_of(const Choices& choices) {
  std::vector<Pair> pairs;
  for (size_t a = 0; a < choices.size(); ++a)
    for (size_t b = a + 1; b < choices.size(); ++b) pairs.push_back({a, choices[a], b, choices[b]});
  return pairs;
}

}  // namespace

bool supports(const TinyModel& model, const Strategy& strategy) {
  const config::ParallelismConfig& degrees = strategy.degrees;
  return (degrees.tp_size == 1 || model.splits) && ((degrees.pp_size == 1 && degrees.cp_size == 1) || model.stages);
}

std::vector<TinyModel> tiny_models(int64_t head) {
  Sizes shallow;  // T5's attention has no scaling: a deeper one would amplify rounding differences
  shallow.layers = 2;
  Sizes odd_heads, plain;
  odd_heads.heads = 3;
  shallow.head = odd_heads.head = plain.head = head;
  return {t5(shallow, false), gpt2(plain), llama(plain), gemma(plain, false), gemma(plain, true), bert(odd_heads)};
}

std::vector<TinyModel> tiny_models_for(int64_t slices, int64_t chunks) {
  Sizes shallow, odd_heads, plain;
  shallow.layers = 2;
  odd_heads.heads = 3;
  for (Sizes* sizes : {&shallow, &plain}) {
    sizes->kv_heads = std::max<int64_t>(2, slices);
    sizes->heads = 2 * sizes->kv_heads;
    sizes->inner = 14 * sizes->kv_heads;
  }
  plain.layers = std::max(plain.layers, chunks);
  std::vector<TinyModel> models{t5(shallow, false), gpt2(plain), llama(plain), bert(odd_heads)};
  for (TinyModel& model : models) model.gradient_tolerance = 1e-5;  // as for random sizes
  return models;
}

std::vector<Strategy> strategies(int ranks, bool on_devices) {
  const auto full = ShardingStrategy::kFullShard, zero2 = ShardingStrategy::kShardGradOp;
  std::vector<Strategy> all{
      {"one rank"},
      {"DATA_PARALLEL 3", 1, DistributedType::kDataParallel, full, {}, {"cpu", "cpu", "cpu"}},
      {"DDP 2", 2, DistributedType::kMultiCpu},
      {"DDP 3", 3, DistributedType::kMultiCpu},
      {"DDP 4", 4, DistributedType::kMultiCpu},
      sharded("FULL_SHARD", 1, full),
      sharded("FULL_SHARD", 2, full),
      sharded("FULL_SHARD", 3, full, false),
      sharded("FULL_SHARD", 4, full),
      sharded("SHARD_GRAD_OP", 2, zero2, false),
      sharded("SHARD_GRAD_OP", 3, zero2),
      sharded("NO_SHARD", 2, ShardingStrategy::kNoShard),
      meshed("FSDP HYBRID_SHARD 2x2", 4, DistributedType::kFsdp, {.dp_replicate_size = 2, .dp_shard_size = 2}),
      meshed("TP 2", 2, DistributedType::kMultiCpu, {.tp_size = 2}),
      meshed("TP 2 x DDP 2", 4, DistributedType::kMultiCpu, {.tp_size = 2}),
      meshed("TP 2 x FSDP 2", 4, DistributedType::kFsdp, {.dp_shard_size = 2, .tp_size = 2}),
      meshed("TP 2 by rows", 2, DistributedType::kMultiCpu, {.tp_size = 2, .tp_sequence_parallel = true}),
      meshed("TP 2 by rows x FSDP 2", 4, DistributedType::kFsdp, {.tp_size = 2, .tp_sequence_parallel = true}),
      meshed("CP 2", 2, DistributedType::kMultiCpu, {.cp_size = 2}),
      meshed("CP 3", 3, DistributedType::kMultiCpu, {.cp_size = 3}),
      meshed("CP 2 x FSDP 2", 4, DistributedType::kFsdp, {.cp_size = 2}),
      meshed("TP 2 by rows x CP 2", 4, DistributedType::kMultiCpu,
             {.tp_size = 2, .cp_size = 2, .tp_sequence_parallel = true}),
      meshed("PP 2", 2, DistributedType::kMultiCpu, {.pp_size = 2}),
      meshed("PP 3", 3, DistributedType::kMultiCpu, {.pp_size = 3}),
      meshed("PP 2 x DDP 2", 4, DistributedType::kMultiCpu, {.pp_size = 2}),
      meshed("TP 2 x PP 2", 4, DistributedType::kMultiCpu, {.tp_size = 2, .pp_size = 2}),
      meshed("TP 2 by rows x PP 2", 4, DistributedType::kMultiCpu,
             {.tp_size = 2, .pp_size = 2, .tp_sequence_parallel = true}),
      meshed("PP 2 x FSDP 2", 4, DistributedType::kFsdp, {.pp_size = 2}),
      sent_stages("PP 2 x FSDP 2 sent", full),
      sent_stages("PP 2 x SHARD_GRAD_OP 2 sent", zero2),
      meshed("PP 2 x HYBRID_SHARD 2x2", 8, DistributedType::kFsdp,
             {.dp_replicate_size = 2, .dp_shard_size = 2, .pp_size = 2}),
      meshed("TP 2 x PP 2 x FSDP 2", 8, DistributedType::kFsdp, {.tp_size = 2, .pp_size = 2}),
  };
  if (on_devices)
    for (const Strategy& strategy : std::vector<Strategy>(all))
      if (strategy.type == DistributedType::kFsdp && strategy.sharding != ShardingStrategy::kNoShard)
        all.push_back(offloaded(strategy));
  std::erase_if(all, [&](const Strategy& strategy) { return strategy.ranks > ranks; });
  return all;
}

std::vector<Setting> full_matrix(int ranks, bool on_devices) {
  std::vector<Setting> all;
  for (Candidate& candidate : candidates(ranks, on_devices)) all.push_back(std::move(candidate.setting));
  for (size_t i = 0, count = all.size(); i < count; ++i)
    if (all[i].micro_batches == 1 && !all[i].recompute) {
      all.push_back(all[i]);
      all.back().bf16 = true;
    }
  return all;
}

std::vector<Setting> pairwise_matrix(int ranks, bool on_devices) {
  std::vector<Candidate> left = candidates(ranks, on_devices);
  std::set<Pair> missing;
  for (const Candidate& candidate : left)
    for (const Pair& pair : pairs_of(candidate.choices)) missing.insert(pair);
  std::vector<Setting> chosen;
  while (!missing.empty()) {  // greedily take the candidate with the most missing pairs
    const auto news = [&](const Candidate& c) {
      const auto pairs = pairs_of(c.choices);
      return std::count_if(pairs.begin(), pairs.end(), [&](const Pair& pair) { return missing.count(pair) != 0; });
    };
    const auto best =
        std::max_element(left.begin(), left.end(), [&](const auto& a, const auto& b) { return news(a) < news(b); });
    for (const Pair& pair : pairs_of(best->choices)) missing.erase(pair);
    chosen.push_back(std::move(best->setting));
    left.erase(best);
  }
  return chosen;
}

std::vector<Setting> random_settings(int ranks, uint64_t seed, int64_t count, bool on_devices) {
  std::mt19937_64 draws(seed);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(draws() % static_cast<uint64_t>(high - low + 1));
  };
  const auto ways = strategies(ranks, on_devices);
  std::vector<Setting> all;
  while (static_cast<int64_t>(all.size()) < count) {
    Sizes s;
    s.kv_heads = 2 * draw(1, 2);
    s.heads = s.kv_heads * draw(1, 3);
    s.head = 2 * draw(1, 5);
    s.hidden = draw(3, 40);
    s.inner = 2 * draw(1, 30);
    s.layers = draw(3, 5);
    s.vocabulary = draw(40, 90);
    // Not Gemma 3: where it normalizes queries and keys of a few values, the summation order alone moves the tenth
    // loss, on one rank by up to 1e-3 of it.
    const std::array models{t5(s, false), t5(s, true), gpt2(s), llama(s), gemma(s, false), bert(s)};
    Setting setting{models[static_cast<size_t>(draw(0, std::ssize(models) - 1))],
                    ways[static_cast<size_t>(draw(1, std::ssize(ways) - 1))],
                    draw(0, 1) == 1,
                    draw(1, 4),
                    draw(0, 1) == 1,
                    false};
    setting.model.gradient_tolerance = 1e-5;  // with some sizes, gradients are small differences of large numbers
    if (supports(setting.model, setting.strategy)) all.push_back(std::move(setting));
  }
  return all;
}

}  // namespace trainer::selftest
