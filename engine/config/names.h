// The YAML spelling of every enum of sections.h: the only place these names appear.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "engine/config/sections.h"

namespace trainer::config {

/// `values`: the spellings, read in any case and written as here. `others`, where present: further spellings that are
/// read. `later`, where present: names that other programs know and this version doesn't support.
template <class E>
struct EnumNames;

template <class E>
concept NamedEnum = requires {
  EnumNames<E>::values;
};

template <NamedEnum E>
std::string name_of(E value) {
  for (const auto& [known, name] : EnumNames<E>::values) {
    if (known == value) return std::string(name);
  }
  return "?";
}

template <>
struct EnumNames<DistributedType> {
  using E = DistributedType;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kNo, "NO"}, {E::kMultiCpu, "MULTI_CPU"}, {E::kMultiGpu, "MULTI_GPU"}, {E::kFsdp, "FSDP"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kNo, "false"}};  // NO, as YAML 1.1 reads it
  static constexpr std::string_view later[] = {"DEEPSPEED", "MEGATRON_LM", "DATA_PARALLEL", "MULTI_NPU",
                                               "MULTI_MLU", "MULTI_SDAA",  "MULTI_MUSA",    "MULTI_XPU",
                                               "MULTI_HPU", "XLA",         "MULTI_NEURON",  "MODEL_PARALLEL"};
};

template <>
struct EnumNames<MixedPrecision> {
  using E = MixedPrecision;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kNo, "no"}, {E::kBf16, "bf16"}, {E::kFp16, "fp16"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kNo, "false"}};
  static constexpr std::string_view later[] = {"fp8"};
};

// The digits are Accelerate's codes.
template <>
struct EnumNames<ShardingStrategy> {
  using E = ShardingStrategy;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kFullShard, "FULL_SHARD"},
                                                              {E::kShardGradOp, "SHARD_GRAD_OP"},
                                                              {E::kNoShard, "NO_SHARD"},
                                                              {E::kHybridShard, "HYBRID_SHARD"},
                                                              {E::kHybridShardZero2, "HYBRID_SHARD_ZERO2"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kFullShard, "1"},
                                                              {E::kShardGradOp, "2"},
                                                              {E::kNoShard, "3"},
                                                              {E::kHybridShard, "4"},
                                                              {E::kHybridShardZero2, "5"}};
};

template <>
struct EnumNames<WrapPolicy> {
  using E = WrapPolicy;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kTransformerBased, "TRANSFORMER_BASED_WRAP"}, {E::kSizeBased, "SIZE_BASED_WRAP"}, {E::kNoWrap, "NO_WRAP"}};
};

template <>
struct EnumNames<BackwardPrefetch> {
  using E = BackwardPrefetch;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kPre, "BACKWARD_PRE"}, {E::kPost, "BACKWARD_POST"}, {E::kNone, "NO_PREFETCH"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kPre, "1"}, {E::kPost, "2"}};
};

template <>
struct EnumNames<StateDictType> {
  using E = StateDictType;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kFull, "FULL_STATE_DICT"}, {E::kLocal, "LOCAL_STATE_DICT"}, {E::kSharded, "SHARDED_STATE_DICT"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kFull, "1"}, {E::kLocal, "2"}, {E::kSharded, "3"}};
};

template <>
struct EnumNames<Task> {
  using E = Task;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kCausalLm, "causal_lm"},
                                                              {E::kSeq2SeqLm, "seq2seq_lm"},
                                                              {E::kSequenceClassification, "sequence_classification"},
                                                              {E::kImageClassification, "image_classification"}};
};

template <>
struct EnumNames<DataFormat> {
  using E = DataFormat;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kAuto, "auto"}, {E::kDelimited, "delimited"}, {E::kCsv, "csv"},  {E::kTsv, "tsv"},
      {E::kJson, "json"}, {E::kJsonl, "jsonl"},         {E::kText, "text"}};
  static constexpr std::string_view later[] = {"megatron", "mnist", "parquet"};
};

template <>
struct EnumNames<Schedule> {
  using E = Schedule;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kLinear, "linear"},
                                                              {E::kCosine, "cosine"},
                                                              {E::kConstant, "constant"},
                                                              {E::kConstantWithWarmup, "constant_with_warmup"}};
  static constexpr std::string_view later[] = {
      "cosine_with_restarts",      "polynomial",          "inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr",
      "cosine_warmup_with_min_lr", "warmup_stable_decay", "greedy"};
};

template <>
struct EnumNames<OptimizerName> {
  using E = OptimizerName;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kAdamWFused, "adamw_torch_fused"}, {E::kAdamW, "adamw_torch"}, {E::kSgd, "sgd"}};
  static constexpr std::string_view later[] = {"adafactor",  "adagrad",        "rmsprop",     "lion_32bit", "lion_8bit",
                                               "adamw_8bit", "adamw_bnb_8bit", "paged_adamw", "lomo",       "ademamix"};
};

template <>
struct EnumNames<LoraBias> {
  using E = LoraBias;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kNone, "none"}, {E::kAll, "all"}, {E::kLoraOnly, "lora_only"}};
};

}  // namespace trainer::config
