// The YAML spelling of every enum in sections/; the names appear only here.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "engine/config/sections.h"

namespace trainer::config {

/// `values`: the spellings, read in any case and written as listed. `others`, if present: further spellings that are
/// read. `later`, if present: other programs' names that this version doesn't support; `elsewhere`: the same with the
/// reason.
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
  static constexpr std::pair<E, std::string_view> values[] = {{E::kNo, "NO"},
                                                              {E::kMultiCpu, "MULTI_CPU"},
                                                              {E::kMultiGpu, "MULTI_GPU"},
                                                              {E::kFsdp, "FSDP"},
                                                              {E::kDeepspeed, "DEEPSPEED"},
                                                              {E::kMegatronLm, "MEGATRON_LM"},
                                                              {E::kDataParallel, "DATA_PARALLEL"}};
  // NO as YAML 1.1 reads it, and Accelerate's spelling before parallelism_config.
  static constexpr std::pair<E, std::string_view> others[] = {{E::kNo, "false"}, {E::kMultiGpu, "TP"}};
  static constexpr std::pair<std::string_view, std::string_view> elsewhere[] = {
      {"MODEL_PARALLEL", "it is SageMaker's; FSDP shards a model over ranks"}};
};

/// Values of Accelerate's distributed_type for other vendors' devices: with use_cpu they are read as `here`.
struct OtherDevices {
  std::string_view name;
  std::string_view whose;
  DistributedType here = DistributedType::kMultiGpu;
};
inline constexpr OtherDevices kOtherDevices[] = {{"MULTI_XPU", "Intel's GPUs"},
                                                 {"MULTI_HPU", "Intel's Gaudi"},
                                                 {"MULTI_NPU", "Huawei's Ascend"},
                                                 {"MULTI_MLU", "Cambricon's MLUs"},
                                                 {"MULTI_SDAA", "Tecorigin's SDAAs"},
                                                 {"MULTI_MUSA", "Moore Threads' GPUs"},
                                                 {"MULTI_NEURON", "Amazon's Trainium"},
                                                 {"XLA", "Google's TPUs"},
                                                 {"TPU", "Google's TPUs"},
                                                 {"MPS", "Apple's GPUs", DistributedType::kNo}};
/// The entry that `text` names, in any case; null: none.
const OtherDevices* other_devices(const std::string& text);

template <>
struct EnumNames<MixedPrecision> {
  using E = MixedPrecision;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kNo, "no"}, {E::kBf16, "bf16"}, {E::kFp16, "fp16"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kNo, "false"}};
  static constexpr std::pair<std::string_view, std::string_view> elsewhere[] = {{"fp8", "use bf16 instead"}};
};

/// torch's words.
template <>
struct EnumNames<MatmulPrecision> {
  using E = MatmulPrecision;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kHighest, "highest"}, {E::kHigh, "high"}, {E::kMedium, "medium"}};
};

template <>
struct EnumNames<SavedActivations> {
  using E = SavedActivations;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kAsComputed, "as_computed"}, {E::kBfloat16, "bfloat16"}, {E::kInt8, "int8"}};
};

template <>
struct EnumNames<DdpBackend> {
  using E = DdpBackend;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kGloo, "gloo"}, {E::kMpi, "mpi"}, {E::kNccl, "nccl"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kGloo, "tcp"}};  // torch's backend before Gloo
  static constexpr std::pair<std::string_view, std::string_view> elsewhere[] = {
      {"ccl", "it is Intel's oneCCL, for which this build has no library; on the CPU use gloo or mpi"},
      {"hccl",
       "it is for Huawei's Ascend and Intel's Gaudi; docs/backends.md describes what a library for them must provide"},
      {"cncl", "it is for Cambricon's MLUs; docs/backends.md describes what a library for them must provide"},
      {"mccl", "it is for Moore Threads' GPUs; docs/backends.md describes what a library for them must provide"},
      {"xla", "it is for Google's TPUs; docs/backends.md describes what a library for them must provide"},
      {"xrt", "it is for Google's TPUs; docs/backends.md describes what a library for them must provide"},
      {"neuron", "it is for Amazon's Trainium; docs/backends.md describes what a library for it must provide"},
      {"smddp", "it is SageMaker's library, which only its GPU images have; on the CPU use gloo or mpi"}};
};

template <>
struct EnumNames<GlooTransport> {
  using E = GlooTransport;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kTls, "tls"}, {E::kAuthenticated, "authenticated"}, {E::kTcp, "tcp"}};
  static constexpr std::pair<E, std::string_view> others[] = {{E::kTls, "tcp_tls"}};  // GLOO_DEVICE_TRANSPORT's name
};

// The digits are Accelerate's numeric codes.
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
      {E::kAuto, "auto"},     {E::kDelimited, "delimited"}, {E::kCsv, "csv"},          {E::kTsv, "tsv"},
      {E::kJson, "json"},     {E::kJsonl, "jsonl"},         {E::kText, "text"},        {E::kParquet, "parquet"},
      {E::kParquet, "arrow"}, {E::kMnist, "mnist"},         {E::kMegatron, "megatron"}};
};

template <>
struct EnumNames<SampleBy> {
  using E = SampleBy;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kLine, "line"}, {E::kParagraph, "paragraph"}, {E::kDocument, "document"}};
};

template <>
struct EnumNames<OnBadSample> {
  using E = OnBadSample;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kError, "error"}, {E::kSkip, "skip"}};
};

template <>
struct EnumNames<RecordChoice> {
  using E = RecordChoice;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kFirst, "first"}, {E::kRandom, "random"}};
};

template <>
struct EnumNames<TooLong> {
  using E = TooLong;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kCut, "cut"}, {E::kDrop, "drop"}, {E::kError, "error"}};
};

template <>
struct EnumNames<Dialogue> {
  using E = Dialogue;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kNone, "none"},         {E::kMessages, "messages"},
                                                              {E::kShareGpt, "sharegpt"}, {E::kAlpaca, "alpaca"},
                                                              {E::kPrompt, "prompt"},     {E::kPlay, "play"}};
};

template <>
struct EnumNames<Learn> {
  using E = Learn;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kAll, "all"}, {E::kAssistant, "assistant"}, {E::kLastTurn, "last_turn"}, {E::kEachTurn, "each_turn"}};
};

template <>
struct EnumNames<Schedule> {
  using E = Schedule;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kLinear, "linear"},
                                                              {E::kCosine, "cosine"},
                                                              {E::kConstant, "constant"},
                                                              {E::kConstantWithWarmup, "constant_with_warmup"},
                                                              {E::kCosineWithRestarts, "cosine_with_restarts"},
                                                              {E::kCosineWithMinLr, "cosine_with_min_lr"},
                                                              {E::kCosineWarmupWithMinLr, "cosine_warmup_with_min_lr"},
                                                              {E::kPolynomial, "polynomial"},
                                                              {E::kInverseSqrt, "inverse_sqrt"},
                                                              {E::kWarmupStableDecay, "warmup_stable_decay"},
                                                              {E::kWarmupLr, "warmup_lr"},
                                                              {E::kWarmupDecayLr, "warmup_decay_lr"},
                                                              {E::kWarmupCosineLr, "warmup_cosine_lr"}};
  static constexpr std::pair<E, std::string_view> others[] = {
      {E::kWarmupLr, "WarmupLR"}, {E::kWarmupDecayLr, "WarmupDecayLR"}, {E::kWarmupCosineLr, "WarmupCosineLR"}};
  static constexpr std::string_view later[] = {"reduce_lr_on_plateau", "greedy"};
};

template <>
struct EnumNames<OptimizerName> {
  static constexpr auto values = optimizer_names();
  static constexpr auto& others = kOtherOptimizerNames;
  static constexpr auto& later = kLaterOptimizers;
};

template <>
struct EnumNames<OnDivergence> {
  using E = OnDivergence;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kStop, "stop"}, {E::kSkip, "skip"}, {E::kRollback, "rollback"}};
};

template <>
struct EnumNames<SaveStrategy> {
  using E = SaveStrategy;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kSteps, "steps"}, {E::kEpoch, "epoch"}, {E::kBest, "best"}, {E::kNo, "no"}};
};

template <>
struct EnumNames<CommHook> {
  using E = CommHook;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kNo, "no"},
                                                              {E::kFp16, "fp16"},
                                                              {E::kBf16, "bf16"},
                                                              {E::kPowerSgd, "power_sgd"},
                                                              {E::kBatchedPowerSgd, "batched_power_sgd"}};
};

template <>
struct EnumNames<PreferenceLoss> {
  using E = PreferenceLoss;
  static constexpr std::pair<E, std::string_view> values[] = {{E::kSigmoid, "sigmoid"},
                                                              {E::kRobust, "robust"},
                                                              {E::kHinge, "hinge"},
                                                              {E::kIpo, "ipo"},
                                                              {E::kSigmoidNorm, "sigmoid_norm"}};
  static constexpr std::string_view later[] = {"exo_pair",     "nca_pair", "bco_pair", "sppo_hard", "aot",
                                               "aot_unpaired", "apo_zero", "apo_down", "discopop",  "sft",
                                               "orpo",         "simpo",    "kto_pair"};
};

template <>
struct EnumNames<LoraBias> {
  using E = LoraBias;
  static constexpr std::pair<E, std::string_view> values[] = {
      {E::kNone, "none"}, {E::kAll, "all"}, {E::kLoraOnly, "lora_only"}};
};

}  // namespace trainer::config
