// The work of an update, as a dry run records it, against formulas by hand; and the time model.
#include "engine/train/roofline/roofline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/train/roofline/step_trace.h"

namespace trainer::train {
namespace {

using config::DistributedType;
using dist::DryCollective;
using Kind = DryCollective::Kind;

constexpr const char* kLlama =
    R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2})";
constexpr int64_t kSamples = 2, kLength = 256, kTokens = kSamples * kLength;
constexpr int64_t kLlamaLayer = 2 * 128 * 128 + 2 * 64 * 128 + 3 * 128 * 320, kLlamaHead = 512 * 128;
constexpr int64_t kLlamaParameters = 3 * (kLlamaLayer + 2 * 128) + 128 + 2 * kLlamaHead;

config::Plan planned(const std::string& model, config::Task task = config::Task::kCausalLm,
                     DistributedType type = DistributedType::kNo, int64_t ranks = 1) {
  config::Plan plan;
  plan.config.model.config = model;
  plan.config.data.task = task;
  plan.config.data.max_length = plan.config.data.max_source_length = kLength;
  plan.config.data.max_target_length = 24;
  plan.config.training.per_device_train_batch_size = kSamples;
  plan.config.distributed_type = type;
  plan.config.num_processes = ranks;
  return plan;
}

Workload on_gpus(const config::Plan& plan) {
  Workload workload = fullest_workload(plan, *make_blueprint(plan).model);
  workload.transport = dist::Transport::kDevices;
  return workload;
}

StepTrace traced(const config::Plan& plan, int64_t stage = 0) {
  const Workload workload = on_gpus(plan);
  return trace_step(plan, make_blueprint(plan), workload, workload.training.batches.front(), stage);
}

/// Sums of FLOPs; `attention`: inside or outside of it.
int64_t flops_of(const dist::DryTrace& trace, bool attention) {
  int64_t sum = 0;
  for (const auto& event : trace)
    if (const auto* const op = std::get_if<dist::DryOperator>(&event); op != nullptr && attention == (op->attention > 0))
      sum += op->flops;
  return sum;
}

int64_t bytes_of(const dist::DryTrace& trace, Kind kind) {
  int64_t sum = 0;
  for (const auto& event : trace)
    if (const auto* const one = std::get_if<DryCollective>(&event); one != nullptr && one->kind == kind)
      sum += one->bytes;
  return sum;
}

template <class T>
int64_t count_of(const dist::DryTrace& trace) {
  return std::count_if(trace.begin(), trace.end(), [](const auto& event) { return std::holds_alternative<T>(event); });
}

/// FLOPs of both products of attention's forward, over all heads of width `d` together.
int64_t attention_flops(int64_t heads, int64_t d, int64_t queries, int64_t keys) {
  return 2 * 2 * kSamples * heads * queries * keys * d;
}

Cluster cluster_of(const std::string& card, int64_t gpus_per_machine = 8) {
  return {config::card_named("--device", card), gpus_per_machine};
}

Roofline roofline_on(const config::Plan& plan, const Cluster& cluster) {
  return roofline_of(plan, {}, on_gpus(plan), cluster);
}

// A linear layer costs 2 FLOPs for each weight and row in forward, and 4 in backward (its input's gradient and its
// weight's). Attention costs its two products in forward; backward computes the first again, and each has two gradients.

TEST(StepFlops, OfLlama) {
  const StepTrace trace = traced(planned(kLlama));
  EXPECT_EQ(flops_of(trace.some, false), 6 * kTokens * (3 * kLlamaLayer + kLlamaHead));
  EXPECT_EQ(flops_of(trace.some, true), 7 * 3 * attention_flops(4, 32, kLength, kLength) / 2);
  EXPECT_EQ(flops_of(trace.forward, false), 2 * kTokens * (3 * kLlamaLayer + kLlamaHead));
  EXPECT_EQ(flops_of(trace.forward, true), 3 * attention_flops(4, 32, kLength, kLength));
  EXPECT_EQ(flops_of(trace.twice, false), 2 * flops_of(trace.some, false));
  EXPECT_EQ(flops_of(trace.end, false), 0);
  EXPECT_EQ(trace.trained, 1);
}

TEST(StepFlops, OfLlamaWithRecomputationAndLora) {
  config::Plan plan = planned(kLlama);
  plan.config.training.gradient_checkpointing = true;
  const StepTrace recomputed = traced(plan);
  EXPECT_EQ(flops_of(recomputed.some, false), kTokens * (8 * 3 * kLlamaLayer + 6 * kLlamaHead));
  plan.config.training.gradient_checkpointing = false;
  plan.config.lora.emplace().target_modules.names = {"q_proj"};
  plan.config.lora->lora_dropout = 0;
  const StepTrace lora = traced(plan);
  // Frozen weights have no gradient. Neither has what comes before the first adapter: the input of the first layer, into
  // which only the adapter's first matrix, q_proj, k_proj and v_proj would send one.
  const int64_t r = plan.config.lora->r, adapters = 3 * r * (128 + 128), first = (128 + 64 + 64) * 128 + r * 128;
  EXPECT_EQ(flops_of(lora.some, false),
            kTokens * (4 * (3 * kLlamaLayer + kLlamaHead) + 6 * adapters - 2 * first));
  EXPECT_NEAR(lora.trained, static_cast<double>(adapters) / static_cast<double>(adapters + 3 * kLlamaLayer + kLlamaHead),
              1e-12);
}

TEST(StepFlops, AreThoseOfTheComputeDtype) {
  config::Plan plan = planned(kLlama);
  plan.config.mixed_precision = config::MixedPrecision::kBf16;
  plan.config.lora.emplace().target_modules.names = {"q_proj"};
  for (const auto& event : traced(plan).some)
    if (const auto* const op = std::get_if<dist::DryOperator>(&event); op != nullptr && op->flops > 0)
      EXPECT_EQ(op->dtype, at::kBFloat16) << op->name;
}

TEST(StepFlops, OfT5) {
  const StepTrace trace =
      traced(planned(R"({"model_type": "t5", "vocab_size": 512, "d_model": 128, "d_kv": 32, "d_ff": 320,
                         "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4})",
                     config::Task::kSeq2SeqLm));
  const int64_t matrix = 128 * 4 * 32, feed_forward = 2 * 128 * 320, targets = kSamples * 24;
  const int64_t of_sources = 2 * (4 * matrix + feed_forward) + 3 * 2 * matrix;  // the last: keys and values for decoders
  const int64_t of_targets = 3 * (6 * matrix + feed_forward) + 512 * 128;
  EXPECT_EQ(flops_of(trace.some, false), 6 * (kTokens * of_sources + targets * of_targets));
  EXPECT_EQ(2 * flops_of(trace.some, true), 7 * (2 * attention_flops(4, 32, kLength, kLength) +
                                                 3 * attention_flops(4, 32, 24, 24) +
                                                 3 * attention_flops(4, 32, 24, kLength)));
}

TEST(StepFlops, OfBert) {
  const StepTrace trace =
      traced(planned(R"({"model_type": "bert", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 320,
                         "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 512,
                         "id2label": {"0": "a", "1": "b"}})",
                     config::Task::kSequenceClassification));
  const int64_t layer = 4 * 128 * 128 + 2 * 128 * 320, head = 128 * 128 + 2 * 128;
  EXPECT_EQ(flops_of(trace.some, false), 6 * (kTokens * 3 * layer + kSamples * head));
  EXPECT_EQ(flops_of(trace.some, true), 7 * 3 * attention_flops(4, 32, kLength, kLength) / 2);
}

TEST(StepCommunication, OfDdpIsEveryGradientOnce) {
  const StepTrace trace = traced(planned(kLlama, config::Task::kCausalLm, DistributedType::kMultiGpu, 4));
  EXPECT_EQ(bytes_of(trace.some, Kind::kAllReduce), 4 * kLlamaParameters);
  EXPECT_EQ(bytes_of(trace.twice, Kind::kAllReduce), 4 * kLlamaParameters) << "only in the last micro-batch";
  EXPECT_EQ(count_of<dist::DryWait>(trace.some), count_of<DryCollective>(trace.some));
}

TEST(StepCommunication, OfDdpInBf16IsHalf) {
  config::Plan plan = planned(kLlama, config::Task::kCausalLm, DistributedType::kMultiGpu, 4);
  plan.config.training.ddp_comm_hook = config::CommHook::kBf16;
  EXPECT_EQ(bytes_of(traced(plan).some, Kind::kAllReduce), 2 * kLlamaParameters);
}

TEST(StepCommunication, OfFsdpIsTwoGathersAndOneReductionOfEveryBlock) {
  const StepTrace trace = traced(planned(kLlama, config::Task::kCausalLm, DistributedType::kFsdp, 4));
  const auto padded = [](int64_t elements) { return (elements + 127) / 128 * 128; };  // 32 for each of 4 ranks
  const int64_t blocks = 3 * padded(kLlamaLayer + 2 * 128), root = padded(128 + 2 * kLlamaHead);
  EXPECT_EQ(bytes_of(trace.some, Kind::kAllGather), 4 * (2 * blocks + root));
  EXPECT_EQ(bytes_of(trace.some, Kind::kReduceScatter), 4 * (blocks + root));
  EXPECT_EQ(bytes_of(trace.twice, Kind::kReduceScatter), 2 * 4 * (blocks + root)) << "of every micro-batch";
}

TEST(StepCommunication, OfTensorParallelismIsFourSumsOfTheActivationsForEachLayer) {
  config::Plan plan = planned(kLlama, config::Task::kCausalLm, DistributedType::kMultiGpu, 2);
  plan.config.parallelism_config.emplace().tp_size = 2;
  const StepTrace trace = traced(plan);
  // In forward after attention and after the feed-forward layers, in backward before them; also after the embedding and
  // before the head. The loss adds up 4 fp64 values for each token.
  const int64_t activations = kTokens * 128 * 4;
  EXPECT_EQ(bytes_of(trace.some, Kind::kAllReduce), (4 * 3 + 2) * activations + kTokens * 4 * 8);
}

TEST(StepCommunication, OfAPipelineIsTheActivationsBothWays) {
  config::Plan plan = planned(kLlama, config::Task::kCausalLm, DistributedType::kMultiGpu, 3);
  plan.config.parallelism_config.emplace().pp_size = 3;
  plan.config.training.gradient_accumulation_steps = 6;
  const int64_t activations = kTokens * 128 * 4;
  for (const int64_t stage : {0, 1, 2}) {
    const StepTrace trace = traced(plan, stage);
    ASSERT_EQ(trace.micro_batches, 3);
    const int64_t neighbors = stage == 1 ? 2 : 1;
    EXPECT_EQ(bytes_of(trace.some, Kind::kSend), neighbors * 3 * activations) << stage;
    EXPECT_EQ(bytes_of(trace.some, Kind::kReceive), neighbors * 3 * activations) << stage;
    EXPECT_EQ(bytes_of(trace.twice, Kind::kSend), neighbors * 6 * activations) << stage;
  }
}

TEST(StepTrace, CountsHostReads) {
  const StepTrace trace = traced(planned(kLlama));
  EXPECT_EQ(count_of<dist::DryHostRead>(trace.some), 1) << "the loss and the norm of all gradients";
  EXPECT_EQ(count_of<dist::DryHostRead>(trace.end), 0);
}

dist::DryOperator products(double flops) {
  return {.name = "aten::mm", .flops = static_cast<int64_t>(flops), .dtype = at::kBFloat16};
}
dist::DryOperator moves(double bytes) {
  return {.name = "aten::add", .bytes = static_cast<int64_t>(bytes)};
}

TEST(Timeline, AnOperatorTakesTheLongerOfItsProductsAndItsBytes) {
  const config::GpuCard& card = cluster_of("A100 80GB").card;
  EXPECT_DOUBLE_EQ(seconds_of(products(312e12), card), 1 / (0.869 * Efficiency::kShapes) + Efficiency::kKernel);
  EXPECT_DOUBLE_EQ(seconds_of(moves(2039e9), card), 1 / Efficiency::kMemory + Efficiency::kKernel);
  dist::DryOperator both = products(312e12);
  both.bytes = 1000;
  EXPECT_EQ(seconds_of(both, card), seconds_of(products(312e12), card));
}

TEST(Timeline, OnlyCardsThatHaveThemUseBf16AndTf32) {
  const auto rate = [](const char* card, at::ScalarType dtype) { return peak_flops(cluster_of(card).card, dtype) / 1e12; };
  EXPECT_EQ(rate("H100", at::kBFloat16), 989);
  EXPECT_EQ(rate("T4", at::kHalf), 65);
  EXPECT_EQ(rate("T4", at::kBFloat16), 8.1);
  EXPECT_EQ(rate("H100", at::kFloat), 67);
  const bool before = at::globalContext().allowTF32CuBLAS();
  at::globalContext().setAllowTF32CuBLAS(true);
  EXPECT_EQ(rate("H100", at::kFloat), 494.5);
  EXPECT_EQ(rate("T4", at::kFloat), 8.1);
  at::globalContext().setAllowTF32CuBLAS(before);
}

TEST(Timeline, CollectivesMoveTheBytesOfARing) {
  Cluster cluster = cluster_of("A100 80GB", 4);
  cluster.network = 25e9;
  const auto seconds = [&](Kind kind, const std::vector<int>& ranks) {
    return seconds_of(DryCollective{kind, int64_t{1} << 30, ranks}, cluster);
  };
  const double bytes = int64_t{1} << 30, link = 300e9 * Efficiency::kLink, net = 25e9 * Efficiency::kNetwork;
  EXPECT_DOUBLE_EQ(seconds(Kind::kAllGather, {0, 1, 2, 3}), Efficiency::kLatency + bytes * 3 / 4 / link);
  EXPECT_DOUBLE_EQ(seconds(Kind::kAllReduce, {0, 1, 2, 3}), Efficiency::kLatency + bytes * 6 / 4 / link);
  EXPECT_DOUBLE_EQ(seconds(Kind::kSend, {0, 1}), Efficiency::kLatency + bytes / link);
  const double far = Efficiency::kLatency + Efficiency::kNetworkLatency;
  EXPECT_DOUBLE_EQ(seconds(Kind::kSend, {3, 4}), far + bytes / net);
  EXPECT_DOUBLE_EQ(seconds(Kind::kAllReduce, {0, 4}), far + bytes / net);
  EXPECT_DOUBLE_EQ(seconds(Kind::kAllGather, {0, 1, 2, 3, 4, 5, 6, 7}), far + bytes / 2 / (4 * net));
  cluster.network = 250e9;
  EXPECT_DOUBLE_EQ(seconds(Kind::kAllGather, {0, 1, 2, 3, 4, 5, 6, 7}), far + bytes * 7 / 8 / link);
}

TEST(Timeline, ExposesWhatOperatorsDontCover) {
  const Cluster cluster = cluster_of("A100 80GB", 4);
  const DryCollective gather{Kind::kAllGather, int64_t{1} << 30, {0, 1, 2, 3}};
  const double transfer = seconds_of(gather, cluster);
  const dist::DryOperator half = products(0.5 * transfer * 312e12 * 0.869 * Efficiency::kShapes);
  const double work = seconds_of(half, cluster.card);
  const auto exposed = [&](const dist::DryTrace& trace) { return time_of(trace, cluster).exposed; };
  const double slack = 4 * Efficiency::kLaunch;
  EXPECT_NEAR(exposed({gather, dist::DryWait{0}, half}), transfer, slack);
  EXPECT_NEAR(exposed({gather, half, dist::DryWait{0}}), transfer - work, slack);
  EXPECT_EQ(exposed({gather, half, half, half, dist::DryWait{0}}), 0);
  DryCollective other = gather;
  EXPECT_NEAR(exposed({gather, other, dist::DryWait{1}}), 2 * transfer, slack) << "one communicator";
  other.stream = 1;
  EXPECT_NEAR(exposed({gather, other, dist::DryWait{1}}), transfer, slack) << "two communicators";
  const Cost all = time_of({half, gather, half, dist::DryWait{0}, half}, cluster);
  EXPECT_NEAR(all.seconds, all.computing + all.exposed + all.starved, 1e-9);
}

TEST(Timeline, SmallOperatorsWaitForTheHost) {
  const Cluster cluster = cluster_of("H100");
  const Cost small = time_of(dist::DryTrace(1000, moves(8)), cluster);
  EXPECT_NEAR(small.seconds, 1000 * Efficiency::kLaunch, 1e-5);
  EXPECT_NEAR(small.computing, 1000 * Efficiency::kKernel, 1e-6);
  EXPECT_NEAR(small.starved, small.seconds - small.computing, 1e-5);
  const Cost large = time_of(dist::DryTrace(1000, moves(1e9)), cluster);
  EXPECT_LT(large.starved, 2 * Efficiency::kLaunch);
  dist::DryTrace with_reads;
  for (int i = 0; i < 1000; ++i) {
    if (i % 100 == 0) with_reads.emplace_back(dist::DryHostRead{});
    with_reads.emplace_back(moves(1e9));
  }
  EXPECT_NEAR(time_of(with_reads, cluster).starved, 10 * (Efficiency::kLaunch + Efficiency::kHostRead), 2e-5);
}

// A causal mask of n tokens hides n (n - 1) / 2 pairs. A token attends to at most 64 with a window of 64.
TEST(StepFlops, OfFlashAttentionKnowTheMask) {
  const auto hidden_of = [](const std::string& more) {
    config::Plan plan = planned(R"({"model_type": "mistral", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 320,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": )" + more + "}");
    plan.config.mixed_precision = config::MixedPrecision::kBf16;
    std::vector<int64_t> hidden;
    for (const auto& event : traced(plan).some)
      if (const auto* const op = std::get_if<dist::DryOperator>(&event); op != nullptr && op->hidden_flops > 0) {
        EXPECT_EQ(op->name.find("aten::_flash_attention_"), 0);
        EXPECT_EQ(op->dtype, at::kBFloat16);
        hidden.push_back(op->hidden_flops / (4 * kSamples * 4 * 32));
      }
    return hidden;
  };
  const int64_t causal = kLength * (kLength - 1) / 2, before = (kLength - 64) * (kLength - 63) / 2;
  EXPECT_EQ(hidden_of("null"), std::vector<int64_t>({causal, causal * 5 / 2}));
  EXPECT_EQ(hidden_of("64"), std::vector<int64_t>({causal + before, (causal + before) * 5 / 2}));
}

TEST(Timeline, FlashAttentionIsOneKernelForEachCall) {
  const Cluster cluster = cluster_of("H100");
  dist::DryTrace trace{products(1e12)};
  for (int64_t call = 1; call <= 2; ++call)
    for (int i = 0; i < 20; ++i) {
      dist::DryOperator op = i == 3 ? products(1e12) : moves(1e9);
      op.attention = call;
      trace.emplace_back(op);
    }
  const Cost flash = time_of(trace, cluster, {.flash_attention = true, .causal = true});
  EXPECT_EQ(flash.part(Part::kAttention).launches, 2);
  EXPECT_EQ(flash.part(Part::kAttention).flops, 1e12) << "half of both";
  EXPECT_NEAR(flash.part(Part::kAttention).seconds, 1e12 / (989e12 * Efficiency::kFlashAttention), 1e-5);
  EXPECT_EQ(flash.part(Part::kLinear).flops, 1e12);
}

config::Plan llama_of(DistributedType type = DistributedType::kNo, int64_t ranks = 1) {
  config::Plan plan = planned(kLlama, config::Task::kCausalLm, type, ranks);
  plan.config.mixed_precision = config::MixedPrecision::kBf16;
  plan.config.training.gradient_accumulation_steps = 4;
  return plan;
}

TEST(Roofline, AddsUpAnUpdate) {
  const Roofline found = roofline_on(llama_of(), cluster_of("H100"));
  EXPECT_EQ(found.micro_batches, 4);
  EXPECT_EQ(found.tokens, 4 * kTokens);
  EXPECT_EQ(found.peak, 989e12);
  EXPECT_DOUBLE_EQ(found.update.part(Part::kLinear).flops, 4 * 6.0 * kTokens * (3 * kLlamaLayer + kLlamaHead));
  EXPECT_DOUBLE_EQ(found.model_flops, 4 * (6.0 * kTokens * (3 * kLlamaLayer + kLlamaHead) +
                                           3.0 * 3 * static_cast<double>(attention_flops(4, 32, kLength, kLength))));
  EXPECT_NEAR(found.update.seconds, found.update.computing + found.update.exposed + found.update.starved,
              1e-6 * found.update.seconds);
  EXPECT_DOUBLE_EQ(found.speed.tokens_per_second, static_cast<double>(found.tokens) / found.speed.seconds);
  EXPECT_LE(found.with_flash_attention.seconds, found.speed.seconds);
}

TEST(Roofline, IsMonotonic) {
  const auto seconds = [](const config::Plan& plan, const Cluster& cluster) {
    return roofline_on(plan, cluster).speed.seconds;
  };
  const config::Plan alone = llama_of(), sharded = llama_of(DistributedType::kFsdp, 16);
  Cluster slow = cluster_of("H100");
  slow.card.memory /= 4, slow.card.half /= 4;
  EXPECT_GT(seconds(alone, slow), seconds(alone, cluster_of("H100")));
  Cluster net = cluster_of("H100");
  net.network /= 100;
  EXPECT_GT(seconds(sharded, net), seconds(sharded, cluster_of("H100")));
  EXPECT_GT(seconds(sharded, cluster_of("H100", 8)), seconds(sharded, cluster_of("H100", 16)));
  EXPECT_GT(seconds(sharded, cluster_of("H100")), seconds(alone, cluster_of("H100")));
  config::Plan recomputed = alone;
  recomputed.config.training.gradient_checkpointing = true;
  EXPECT_GT(seconds(recomputed, cluster_of("H100")), seconds(alone, cluster_of("H100")));
  EXPECT_EQ(roofline_on(recomputed, cluster_of("H100")).model_flops, roofline_on(alone, cluster_of("H100")).model_flops);
}

TEST(Roofline, OfAPipelineWaitsForItsEnds) {
  config::Plan plan = llama_of(DistributedType::kMultiGpu, 3);
  plan.config.parallelism_config.emplace().pp_size = 3;
  const auto bubble = [&](int64_t micro_batches) {
    plan.config.training.gradient_accumulation_steps = micro_batches;
    const Roofline found = roofline_on(plan, cluster_of("H100"));
    return found.bubble / found.speed.seconds;
  };
  EXPECT_GT(bubble(3), 0.2);
  EXPECT_LT(bubble(48), 0.06);
  EXPECT_EQ(roofline_on(llama_of(), cluster_of("H100")).bubble, 0);
}

TEST(Network, IsInBitsOrBytes) {
  for (const char* text : {"400Gb", "400 Gb/s", "400gbps", "400Gbit", "0.4Tb", "50GB", "50 GB/s"})
    EXPECT_DOUBLE_EQ(network_named(text), 50e9) << text;
  for (const char* text : {"", "400", "fast", "-1Gb", "0Gb", "1e30Gb", "nanGb"})
    EXPECT_THROW(network_named(text), ConfigError) << text;
}

}  // namespace
}  // namespace trainer::train
