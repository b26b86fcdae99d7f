// The memory plan against the memory of real runs, measured by the counting allocator. Each rank is a separate process,
// because the allocator counts per process. With TRAINER_WRITE_MEMORY_TABLE=1, the results are written to
// docs/memory.md.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/files.h"
#include "engine/dist/memory.h"
#include "engine/evaluation/generate.h"
#include "engine/train/memory_plan.h"
#include "engine/weights/export.h"
#include "models/nn/bf16_products.h"
#include "models/nn/cpu_products.h"
#include "tests/parallel/processes.h"
#include "tests/support/golden_case.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

constexpr double kTolerance = 0.05;
constexpr double kMiB = 1 << 20;

struct Setting {
  std::string name;
  config::DistributedType type = config::DistributedType::kNo;
  bool lora = false, checkpointing = false, bf16 = false;
  int64_t micro_batches = 1;
  bool shared = true;
  bool dropout = true;
  std::string dtype = "auto";  // storage dtype of frozen weights
  config::ShardingStrategy strategy = config::ShardingStrategy::kFullShard;
  config::OptimizerName optim = config::OptimizerName::kAdamWFused;
  int64_t stages = 1;  // more than 1: a decoder-only model
  config::SavedActivations saved = config::SavedActivations::kAsComputed;

  int64_t ranks() const { return type == config::DistributedType::kNo ? 1 : 2 * stages; }
};

constexpr auto kNo = config::DistributedType::kNo, kDdp = config::DistributedType::kMultiCpu,
               kFsdp = config::DistributedType::kFsdp;
constexpr auto kFullShard = config::ShardingStrategy::kFullShard, kShardGradOp = config::ShardingStrategy::kShardGradOp;
constexpr auto kAdamW = config::OptimizerName::kAdamWFused;
constexpr auto kSavedBfloat16 = config::SavedActivations::kBfloat16, kSavedInt8 = config::SavedActivations::kInt8;

const std::vector<Setting> kSettings = {
    {"single", kNo},
    {"single, no dropout", kNo, false, false, false, 1, true, false},
    {"single, bf16", kNo, false, false, true},
    {"single, accumulation 4", kNo, false, false, false, 4},
    {"single, gradient checkpointing", kNo, false, true},
    {"single, saved_activations bfloat16", kNo, false, false, false, 1, true, true, "auto", kFullShard, kAdamW, 1, kSavedBfloat16},
    {"single, LoRA", kNo, true},
    {"single, LoRA, saved_activations int8", kNo, true, false, false, 1, true, true, "auto", kFullShard, kAdamW, 1, kSavedInt8},
    {"single, LoRA, gradient checkpointing", kNo, true, true},
    {"single, LoRA, weights kept in bf16", kNo, true, false, false, 1, true, true, "bfloat16"},
    {"DDP", kDdp},
    {"DDP, accumulation 4", kDdp, false, false, false, 4},
    {"FSDP", kFsdp},
    {"FSDP, sent", kFsdp, false, false, false, 1, false},
    {"FSDP SHARD_GRAD_OP", kFsdp, false, false, false, 1, true, true, "auto", kShardGradOp},
    {"FSDP SHARD_GRAD_OP, sent", kFsdp, false, false, false, 1, false, true, "auto", kShardGradOp},
    {"FSDP, gradient checkpointing", kFsdp, false, true},
    {"FSDP, bf16", kFsdp, false, false, true},
    {"FSDP, accumulation 4", kFsdp, false, false, false, 4},
    {"FSDP, LoRA", kFsdp, true},
    {"FSDP, LoRA, bf16", kFsdp, true, false, true},
    {"FSDP, LoRA, weights kept in bf16", kFsdp, true, false, false, 1, true, true, "bfloat16"},
    {"FSDP, LoRA, gradient checkpointing", kFsdp, true, true},
};

/// Eight samples of different lengths: either a source and a target each, or a source whose tokens are all labels.
train::BatchLengths lengths(const Setting& s) {
  std::vector<int64_t> sources{96, 80, 64, 112, 48, 96, 72, 128};
  if (s.checkpointing) sources.back() = 256;  // fewer activations are kept of each token
  if (s.stages > 1) return {sources, {}, std::accumulate(sources.begin(), sources.end(), int64_t{0})};
  return {sources, {16, 24, 8, 32, 16, 8, 24, 16}};
}
constexpr int64_t kNewTokens = 8, kWidth = 256;

config::Plan plan_of(const Setting& s) {
  config::Plan plan;
  config::Config& c = plan.config;
  c.model.config =
      R"({"model_type": "t5", "vocab_size": 1024, "d_model": 256, "d_kv": 64, "d_ff": 1024, "num_layers": 2, "num_heads": 4})";
  if (s.stages > 1) {
    c.model.config =
        R"({"model_type": "llama", "vocab_size": 1024, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 4})";
    c.data.task = config::Task::kCausalLm;
    c.parallelism_config.emplace().pp_size = s.stages;
  }
  c.distributed_type = s.type;
  c.num_processes = s.ranks();
  c.fsdp_config.sharding_strategy = s.strategy;
  c.training.gradient_checkpointing = s.checkpointing;
  c.training.dropout = s.dropout;
  c.training.optim = s.optim;
  c.model.dtype = s.dtype;
  if (s.lora) c.lora.emplace().lora_dropout = 0.1;
  if (s.bf16) c.mixed_precision = config::MixedPrecision::kBf16;
  c.training.saved_activations = s.saved;
  return plan;
}

/// The same lengths in each micro-batch.
train::Workload workload_of(const Setting& s) {
  train::Workload workload;
  const train::BatchLengths batch = lengths(s);
  const auto tokens = [](const std::vector<int64_t>& of) { return std::accumulate(of.begin(), of.end(), int64_t{0}); };
  const int64_t labels = tokens(s.stages > 1 ? batch.source : batch.target);
  const auto kind = s.stages > 1 ? data::LabelKind::kNext : data::LabelKind::kTarget;
  workload.training = {{batch}, s.micro_batches * (tokens(batch.source) + labels), 1, kind};
  workload.evaluation = {{batch}, 0, 1, kind};
  workload.under_way = std::min(s.stages, s.micro_batches);
  workload.new_tokens = kNewTokens;
  workload.transport = s.shared ? dist::Transport::kSharedMemory : dist::Transport::kGloo;
  return workload;
}

models::Batch real_batch(const Setting& s) {
  const train::BatchLengths of = lengths(s);
  std::vector<std::vector<int64_t>> sources, labels;
  for (const int64_t n : of.source) sources.emplace_back(n, 5);
  for (const int64_t n : s.stages > 1 ? of.source : of.target) labels.emplace_back(n, 7);
  models::Batch batch = make_batch(sources, labels);
  if (s.stages > 1) batch.target = batch.source;
  return batch;
}

/// Bytes, as measured by one process.
struct Measured {
  int64_t held = 0, training = 0, evaluation = 0, saving = 0, resident = 0;
  int64_t rank = 0;  // the measuring rank
};

Measured measure(const Setting& s, dist::Comm& comm, const std::string& folder) {
  dist::count_tensor_memory();
  const int64_t before = dist::tensor_bytes();
  const auto peak_of = [&](const auto& work) {
    dist::reset_peak_tensor_bytes();
    work();
    return dist::peak_tensor_bytes() - before;
  };
  const config::Plan plan = plan_of(s);
  const auto model = make_model(plan, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  Measured m;
  m.rank = comm.rank();
  m.held = dist::tensor_bytes() - before;
  nn::Pass pass;
  pass.training = s.dropout;
  m.training = peak_of([&] {
    for (int update = 0; update < 2; ++update) {
      std::vector<models::Batch> micro_batches;
      for (int64_t i = 0; i < s.micro_batches; ++i) micro_batches.push_back(real_batch(s));
      model->update(micro_batches, 1000, pass);
      optimizer->step(model->logical_tensors(), 1e-3);
      model->zero_grad();
    }
  });
  m.evaluation = peak_of([&] {
    const models::Batch batch = real_batch(s);
    model->evaluate(batch, {});
    evaluation::generate(*model, batch, kNewTokens, {});
  });
  m.saving = peak_of([&] {
    checkpoint::export_weights(*model, folder + "/model.safetensors", [&](const parallel::LogicalTensor& tensor) {
      return tensor.trainable || !s.lora ? tensor.name : "";
    });
  });
  m.resident = dist::peak_resident_bytes();
  return m;
}

/// The maximum over the ranks of each stage.
std::vector<Measured> most_measured_by_stage(const Setting& s) {
  const auto ranks =
      in_processes<Measured>(static_cast<int>(s.ranks()), s.shared,
                             [&](dist::Comm& comm, const std::string& folder) { return measure(s, comm, folder); });
  std::vector<Measured> stages(static_cast<size_t>(s.stages));
  for (const Measured& rank : ranks) {
    Measured& most = stages[static_cast<size_t>(rank.rank * s.stages / s.ranks())];
    most = {std::max(most.held, rank.held), std::max(most.training, rank.training),
            std::max(most.evaluation, rank.evaluation), std::max(most.saving, rank.saving),
            std::max(most.resident, rank.resident)};
  }
  return stages;
}
Measured most_measured(const Setting& s) {
  return most_measured_by_stage(s).front();
}

/// Bytes that oneDNN may allocate for a bf16 product, which the plan does not count: on CPUs without bf16
/// multiplication it accumulates in fp32 (its "gemm:jit:bf16"). Computed for the longest sources.
int64_t library_scratch(const Setting& s) {
  if (!s.bf16 || __builtin_cpu_supports("avx512bf16")) return 0;
  const std::vector<int64_t> sources = lengths(s).source;
  return std::accumulate(sources.begin(), sources.end(), int64_t{0}) * kWidth * static_cast<int64_t>(sizeof(float));
}

void expect_near(const Setting& s, const train::MemoryPlan& planned, const Measured& measured) {
  const auto near = [](const char* what, int64_t plan, int64_t found) {
    EXPECT_NEAR(static_cast<double>(plan), static_cast<double>(found), kTolerance * static_cast<double>(found)) << what;
  };
  near("held", planned.held(), measured.held);
  near("training", planned.training(), measured.training);
  const int64_t most = planned.evaluation + library_scratch(s);
  near("evaluation", std::clamp(measured.evaluation, planned.evaluation, most), measured.evaluation);
  near("saving", planned.saving, measured.saving);
}

constexpr const char* kTableHead =
    "| configuration | held | planned | measured | ratio | evaluating | saving | resident |\n"
    "|---|---|---|---|---|---|---|---|\n";

/// The table columns that don't depend on the machine.
std::string planned_columns(const Setting& s, const train::MemoryPlan& plan) {
  return fmt::format("| {} | {:.1f} | {:.1f} |", s.name, static_cast<double>(plan.held()) / kMiB,
                     static_cast<double>(plan.training()) / kMiB);
}

std::string measured_columns(const train::MemoryPlan& plan, const Measured& m) {
  const auto ratio = [](int64_t planned, int64_t measured) {
    return static_cast<double>(planned) / static_cast<double>(measured);
  };
  return fmt::format(" {:.1f} | {:.3f} | {:.3f} | {:.3f} | {:.0f} |\n", static_cast<double>(m.training) / kMiB,
                     ratio(plan.training(), m.training), ratio(plan.evaluation, m.evaluation),
                     ratio(plan.saving, m.saving), static_cast<double>(m.resident) / kMiB);
}

const std::string kDocument = source_dir() + "/docs/memory.md";

/// Replaces the old table, which ends the document.
void write_table(const std::string& rows) {
  std::string text = read_file(kDocument, int64_t{1} << 20);
  text.erase(text.find("| configuration"));
  std::ofstream(kDocument) << text << kTableHead << rows;
}

/// Whether the plan is that of every machine. Where some products aren't ours, a weight that is kept in bf16 is widened
/// for them.
bool is_of_every_machine(const Setting& s) {
  constexpr int64_t kLarge = 1024;
  return s.name.find("kept in bf16") == std::string::npos ||
         (nn::products_ignore_threads(at::kFloat) && !nn::has_bf16_product_of_fp32(kLarge, kLarge, kLarge));
}

TEST(MemoryPlan, MatchesMeasurements) {
  const bool writes = std::getenv("TRAINER_WRITE_MEMORY_TABLE") != nullptr;
  const std::string document = read_file(kDocument, int64_t{1} << 20);
  std::string table;
  for (const Setting& s : kSettings) {
    SCOPED_TRACE(s.name);
    const config::Plan plan = plan_of(s);
    const train::MemoryPlan memory = train::plan_memory(plan, train::make_blueprint(plan), workload_of(s));
    const Measured most = most_measured(s);
    expect_near(s, memory, most);
    EXPECT_GT(most.training - most.held, most.training / 5);  // otherwise the weights alone would suffice
    const std::string planned = planned_columns(s, memory);
    table += planned + measured_columns(memory, most);
    EXPECT_TRUE(writes || !is_of_every_machine(s) || document.find(planned) != std::string::npos)
        << "docs/memory.md is out of date: " << planned;
  }
  std::printf("%s%s", kTableHead, table.c_str());
  if (writes) write_table(table);
}

TEST(MemoryPlan, CountsEachStageOfAPipelineAndItsShards) {
  for (const Setting& base : {Setting{"DDP", kDdp}, Setting{"FSDP", kFsdp}, Setting{"FSDP, sent", kFsdp},
                              Setting{"SHARD_GRAD_OP, sent, LoRA", kFsdp, true}}) {
    SCOPED_TRACE(base.name);
    Setting s = base;
    s.shared = s.name.find("sent") == std::string::npos;
    if (s.name.starts_with("SHARD_GRAD_OP")) s.strategy = kShardGradOp;
    s.stages = 2;
    s.micro_batches = 4;
    const config::Plan plan = plan_of(s);
    const auto measured = most_measured_by_stage(s);
    for (int64_t stage = 0; stage < s.stages; ++stage) {
      SCOPED_TRACE(stage);
      expect_near(s, train::plan_memory(plan, train::make_blueprint(plan), workload_of(s), stage),
                  measured[static_cast<size_t>(stage)]);
    }
  }
}

/// The plan of a setting, after comparing it with measurements.
train::MemoryPlan expect_planned(const Setting& s) {
  SCOPED_TRACE(s.name);
  const config::Plan plan = plan_of(s);
  const train::MemoryPlan memory = train::plan_memory(plan, train::make_blueprint(plan), workload_of(s));
  const Measured most = most_measured(s);
  EXPECT_NEAR(static_cast<double>(memory.held()), static_cast<double>(most.held), kTolerance * most.held);
  EXPECT_NEAR(static_cast<double>(memory.training()), static_cast<double>(most.training), kTolerance * most.training);
  return memory;
}

TEST(MemoryPlan, CountsStateShapedUnlikeItsParameter) {
  for (Setting s : {Setting{"single", kNo}, Setting{"FSDP", kFsdp}}) {
    s.optim = config::OptimizerName::kAdafactor;
    const train::MemoryPlan memory = expect_planned(s);
    EXPECT_LT(memory.optimizer, memory.weights / 2);
  }
}

TEST(MemoryPlan, Counts8BitState) {
  for (Setting s : {Setting{"single", kNo}, Setting{"FSDP", kFsdp}}) {
    s.optim = config::OptimizerName::kAdamW8Bit;
    const train::MemoryPlan memory = expect_planned(s);
    // Two bytes for the four of a weight, scales, and fp32 moments of the embedding, one of 15 values.
    EXPECT_LT(memory.optimizer, memory.weights * 3 / 4);
  }
}

TEST(MemoryPlan, CountsTheMatricesThatMuonGathers) {
  for (Setting s : {Setting{"single", kNo}, Setting{"DDP", kDdp}, Setting{"FSDP", kFsdp}}) {
    s.optim = config::OptimizerName::kMuon;
    const train::MemoryPlan memory = expect_planned(s);
    EXPECT_GT(memory.optimizer, memory.weights);          // momentum, and two moments of the embedding
    EXPECT_LT(memory.optimizer, memory.weights * 3 / 2);  // AdamW would have twice the weights
  }
}

}  // namespace
}  // namespace trainer::testing
