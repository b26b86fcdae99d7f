// The most frequent complaints about other trainers, each as a test named after what it guarantees.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/norm.h>

#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/parallel/gather.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/train/build.h"
#include "engine/weights/export.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using config::DistributedType;

config::Plan plan_of(DistributedType type, int ranks, bool lora) {
  config::Plan plan;
  config::Config& c = plan.config;
  c.model.config = read_file(GoldenCase("v1_0").plan.config.model.path + "/config.json");
  c.distributed_type = type;
  c.num_processes = ranks;
  if (lora) {
    c.lora.emplace();
    c.lora->r = 4;
    c.lora->target_modules.names = {"q", "v", "wo"};
  }
  return plan;
}

/// A model with its optimizer on one rank.
struct Trained {
  Trained(const config::Plan& plan, dist::Comm& comm)
      : comm(comm), options(plan.config.lora.value_or(config::LoraConfig{})) {
    train::Blueprint blueprint = train::make_blueprint(plan);
    if (plan.config.lora) options = blueprint.lora;
    model = train::make_parallel(plan, blueprint, comm);
    optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  }

  /// Uses the same samples for any number of ranks: as one batch, or two micro-batches of unequal lengths.
  double update(bool accumulate = false) {
    const std::vector<std::vector<int64_t>> sources{{5, 8, 1}, {7, 1}, {9, 3, 3, 3, 1}, {6, 4, 1}, {2, 1}, {8, 1}};
    const std::vector<std::vector<int64_t>> labels{{2, 3, 1}, {6, 1}, {4, 4, 4, 4, 4, 1}, {9, 1}, {3, 1}, {11, 12, 1}};
    std::vector<std::vector<int64_t>> first_s, first_l, rest_s, rest_l;
    for (size_t i = comm.rank(); i < sources.size(); i += comm.size()) {
      const bool first = !accumulate || first_s.empty();
      (first ? first_s : rest_s).push_back(sources[i]);
      (first ? first_l : rest_l).push_back(labels[i]);
    }
    std::vector<models::Batch> micro{make_batch(first_s, first_l)};
    if (accumulate) micro.push_back(make_batch(rest_s, rest_l));
    const double loss = comm.sum(model->update(micro, kLabels, {})) / kLabels;
    norm = model->clip_grad_norm(0);
    optimizer->step(model->logical_tensors(), 1e-2);
    return loss;
  }

  void forget_gradients() { model->zero_grad(); }

  dist::Comm& comm;
  config::LoraConfig options;
  std::unique_ptr<parallel::ParallelModel> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  double norm = 0;
  static constexpr int64_t kLabels = 18;
};

// 1: an adapter saved under sharding silently holds only one rank's shard.
TEST(Complaints, AdapterSavedUnderShardingIsWhole) {
  const TemporaryFolder folder;
  for (const int ranks : {2, 3})
    run_ranks(ranks, [&](dist::Comm& comm) {
      Trained run(plan_of(DistributedType::kFsdp, ranks, true), comm);
      for (int i = 0; i < 2; ++i) run.update(), run.forget_gradients();
      const auto path = folder.path() / (std::to_string(ranks) + ".safetensors");
      checkpoint::export_adapter(*run.model, adapters::adapter_file(run.model->model(), run.options), path);
      for (const auto& tensor : run.model->logical_tensors()) {
        if (!tensor.trainable) continue;
        const at::Tensor whole = parallel::gather(tensor, comm);
        if (comm.rank() != 0) continue;
        const tensorfile::SafetensorsFile file(path);
        const at::Tensor saved = file.tensor("base_model.model." + tensor.name);
        EXPECT_TRUE(at::equal(saved, whole.view(saved.sizes()))) << tensor.name;
        EXPECT_EQ(at::count_nonzero(saved).item<int64_t>(), saved.numel()) << tensor.name;
      }
    });
}

// 2: LoRA under FSDP can't be resumed, or resumes with new optimizer state.
TEST(Complaints, LoraResumesUnderShardingBitForBit) {
  const TemporaryFolder folder;
  run_ranks(2, [&](dist::Comm& comm) {
    const config::Plan plan = plan_of(DistributedType::kFsdp, 2, true);
    Trained first(plan, comm), second(plan, comm);
    second.update(), second.forget_gradients();  // so that loading must overwrite something
    for (int i = 0; i < 3; ++i) first.update(), first.forget_gradients();
    checkpoint::Manifest about;
    about.progress.step = 3;
    checkpoint::save(folder.path(), about, {*first.model, *first.optimizer}, [](const auto&) {});
    checkpoint::load(checkpoint::checkpoint_path(folder.path(), 3), {*second.model, *second.optimizer});
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(first.update(), second.update()) << "update " << i;
      first.forget_gradients(), second.forget_gradients();
    }
  });
}

// 3 and 4: "must flatten tensors with uniform requires_grad", "uniform dtype".
TEST(Complaints, UnitMayHoldFrozenAndTrainedWeightsOfSeveralDtypes) {
  for (const char* const dtype : {"float32", "bfloat16", "float16"}) {
    config::Plan alone = plan_of(DistributedType::kNo, 1, true), sharded = plan_of(DistributedType::kFsdp, 2, true);
    alone.config.model.dtype = sharded.config.model.dtype = dtype;
    std::vector<double> expected;
    const auto solo = dist::solo_comm();
    Trained reference(alone, *solo);
    for (int i = 0; i < 3; ++i) expected.push_back(reference.update()), reference.forget_gradients();
    run_ranks(2, [&](dist::Comm& comm) {
      Trained run(sharded, comm);
      for (int i = 0; i < 3; ++i) {
        EXPECT_NEAR(run.update() / expected[i], 1, 1e-5) << dtype << ", update " << i;
        run.forget_gradients();
      }
    });
  }
}

// 5: LoRA needs as much memory under FSDP as full training.
TEST(Complaints, FrozenWeightsKeepTheirDtypeAndHaveNoGradients) {
  run_ranks(2, [](dist::Comm& comm) {
    config::Plan plan = plan_of(DistributedType::kFsdp, 2, true);
    plan.config.model.dtype = "bfloat16";
    Trained run(plan, comm);
    run.update();
    int64_t frozen = 0, trained = 0, of_all = 0;
    for (const auto& tensor : run.model->logical_tensors()) {
      (tensor.trainable ? trained : frozen) += tensor.value.numel();
      EXPECT_EQ(tensor.value.scalar_type(), tensor.trainable ? at::kFloat : at::kBFloat16) << tensor.name;
      EXPECT_EQ(tensor.grad.defined(), tensor.trainable) << tensor.name;
      of_all += tensor.numel();
    }
    EXPECT_LT(frozen + trained, of_all * 2 / 3);  // expected: half
    std::set<std::string> with_state;
    for (const auto& state : run.optimizer->state()) with_state.insert(state.parameter);
    for (const auto& tensor : run.model->logical_tensors())
      EXPECT_EQ(with_state.count(tensor.name), tensor.trainable ? 1U : 0U) << tensor.name;
  });
}

// 19: tied embeddings are untied, saved twice, or not saved at all.
TEST(Complaints, TiedEmbeddingsAreSavedOnceAndStayTied) {
  const TemporaryFolder folder;
  run_ranks(2, [&](dist::Comm& comm) {
    const config::Plan plan = plan_of(DistributedType::kFsdp, 2, false);
    Trained first(plan, comm), second(plan, comm);
    first.update();
    checkpoint::Manifest about;
    about.progress.step = 1;
    checkpoint::save(folder.path(), about, {*first.model, *first.optimizer}, [](const auto&) {});
    const auto manifest =
        checkpoint::load(checkpoint::checkpoint_path(folder.path(), 1), {*second.model, *second.optimizer});
    std::multiset<std::string> saved;
    for (const auto& tensor : manifest.tensors)
      if (tensor.kind == "parameter") saved.insert(tensor.name);
    for (const char* const alias : {"lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
      EXPECT_EQ(saved.count(alias), 0U) << alias;
    EXPECT_EQ(saved.count("shared.weight"), 1U);
    std::set<const nn::Parameter*> tied;
    second.model->model().visit([&](nn::Module& module) {
      if (module.path() == "shared" || module.path().ends_with("embed_tokens") || module.path() == "lm_head")
        tied.insert(module.parameters()[0].second.get());
    });
    EXPECT_EQ(tied.size(), 1U);
    first.forget_gradients();
    EXPECT_EQ(first.update(), second.update());
  });
}

// 20: the loss of accumulated micro-batches with unequal numbers of labels is a mean of means.
TEST(Complaints, AccumulationWeighsEveryLabelEquallyUnderEveryStrategy) {
  const auto solo = dist::solo_comm();
  Trained reference(plan_of(DistributedType::kNo, 1, false), *solo);
  const double loss = reference.update(), norm = reference.norm;
  for (const auto& [type, ranks] : {std::pair{DistributedType::kNo, 1},
                                    {DistributedType::kMultiCpu, 2},
                                    {DistributedType::kMultiCpu, 3},
                                    {DistributedType::kFsdp, 2},
                                    {DistributedType::kFsdp, 3}})
    run_ranks(ranks, [&](dist::Comm& comm) {
      Trained run(plan_of(type, ranks, false), comm);
      EXPECT_NEAR(run.update(true) / loss, 1, 1e-6) << ranks;
      EXPECT_NEAR(run.norm / norm, 1, 1e-6) << ranks;
    });
}

// 24: with gradient checkpointing, the first block's inputs require no gradient, and adapters silently don't train.
TEST(Complaints, LoraWithGradientCheckpointingTrainsEveryAdapter) {
  for (const auto& [type, ranks] :
       {std::pair{DistributedType::kNo, 1}, {DistributedType::kMultiCpu, 2}, {DistributedType::kFsdp, 3}})
    run_ranks(ranks, [&](dist::Comm& comm) {
      config::Plan plan = plan_of(type, ranks, true);
      plan.config.training.gradient_checkpointing = true;
      Trained run(plan, comm);
      run.update();  // makes B nonzero, so that A gets gradients
      run.forget_gradients();
      run.update();
      for (const auto& tensor : run.model->logical_tensors()) {
        if (!tensor.trainable) continue;
        auto gradient = tensor;
        gradient.value = tensor.grad;
        EXPECT_GT(parallel::gather(gradient, comm).norm().item<double>(), 0) << tensor.name;
      }
    });
}

}  // namespace
}  // namespace trainer::testing
