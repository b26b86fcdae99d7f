// What a rank holds under FSDP, by the counting allocator, against what it should. Each rank is a process of its own:
// the allocator is counted by process.
#include <algorithm>
#include <set>

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "engine/dist/memory.h"
#include "engine/parallel/sharded_model.h"
#include "engine/train/build.h"
#include "tests/parallel/processes.h"
#include "tests/support/golden_case.h"

namespace trainer::testing {
namespace {

/// Bytes, as one process saw them.
struct Measured {
  int64_t loaded = 0;   // after the model has its values and the optimiser its state
  int64_t forward = 0;  // the most of a forward pass without gradients …
  int64_t update = 0;   // … and of the second update
};

/// A model by numbers: what is kept of it, and what exists whole beside that while a unit is used.
struct Size {
  int64_t frozen = 0, trained = 0;  // bytes, elements
  struct Unit {
    int64_t whole = 0, trained = 0;  // bytes, elements
  };
  Unit root, largest;
};

struct Setting {
  std::string name;
  config::BackwardPrefetch prefetch = config::BackwardPrefetch::kPre;
  bool lora = false, bf16 = false;
  bool shared = false;  // the ranks share memory: then only casts exist beside the shards
};

config::Plan plan_of(config::DistributedType type, const Setting& s) {
  config::Plan plan;
  config::Config& c = plan.config;
  c.model.config =
      R"({"model_type": "t5", "vocab_size": 64, "d_model": 256, "d_kv": 64, "d_ff": 1024, "num_layers": 4, "num_heads": 4})";
  c.distributed_type = type;
  c.fsdp_config.backward_prefetch = s.prefetch;
  if (s.lora) c.lora.emplace();
  if (s.bf16) c.mixed_precision = config::MixedPrecision::kBf16;
  return plan;
}

Measured measure(const config::Plan& plan, dist::Comm& comm) {
  dist::count_tensor_memory();
  const int64_t before = dist::tensor_bytes();
  Measured m;
  const auto model = make_model(plan, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  m.loaded = dist::tensor_bytes() - before;
  // The same work on every rank, and little of it.
  const models::Batch batch = make_batch({{5, 9, 1}}, {{11, 1}});
  const auto peak_of = [&](const auto& work) {
    dist::reset_peak_tensor_bytes();
    work();
    return dist::peak_tensor_bytes() - before;
  };
  m.forward = peak_of([&] { model->evaluate(batch, {}); });
  for (int i = 0; i < 2; ++i) {
    m.update = peak_of([&] { model->update({batch}, 2 * comm.size(), {}); });
    optimizer->step(model->logical_tensors(), 1e-3);
    model->zero_grad();
  }
  return m;
}

Size size_of(const config::Plan& plan, const Setting& s) {
  constexpr int64_t kFloat = 4, kBf16 = 2;
  const auto model = std::move(train::make_blueprint(plan).model);
  Size size;
  std::set<nn::ParameterPtr> in_blocks;
  const auto add = [&](const nn::ParameterPtr& p, Size::Unit& unit) {
    const int64_t seen = p->numel() * (s.bf16 && p->linear ? kBf16 : kFloat);
    const bool cast = s.bf16 && p->linear && p->trainable;
    unit.whole += s.shared && !cast ? 0 : seen;
    (p->trainable ? size.trained : size.frozen) += p->trainable ? p->numel() : seen;
    if (p->trainable) unit.trained += p->numel();
  };
  for (nn::Module* block : model->blocks()) {
    Size::Unit unit;
    for (const nn::ParameterPtr& p : block->all_parameters()) add(p, unit), in_blocks.insert(p);
    size.largest = {std::max(size.largest.whole, unit.whole), std::max(size.largest.trained, unit.trained)};
  }
  for (const nn::ParameterPtr& p : model->all_parameters())
    if (in_blocks.count(p) == 0) add(p, size.root);
  return size;
}

/// Runs the plan with `ranks` processes; what each of them measured.
std::vector<Measured> measured_by(const config::Plan& plan, int ranks, bool share_memory) {
  return in_processes<Measured>(ranks, share_memory,
                                [&](dist::Comm& comm, const std::string&) { return measure(plan, comm); });
}

class FsdpMemory : public ::testing::TestWithParam<Setting> {};

TEST_P(FsdpMemory, OfARankIsWhatItShouldBe) {
  constexpr int kRanks = 2;
  constexpr int64_t kFloat = 4, kValueGradientAndAdam = 4 * kFloat;
  const Setting& s = GetParam();
  const config::Plan alone = plan_of(config::DistributedType::kNo, s),
                     sharded = plan_of(config::DistributedType::kFsdp, s);
  const Size size = size_of(sharded, s);
  // What one rank holds beyond values, gradients and optimiser state: activations, and gradients on their way.
  const Measured one = measured_by(alone, 1, false)[0];
  const int64_t forward_activations = one.forward - one.loaded, activations = one.update - one.loaded;
  const int64_t shards = (size.frozen + kValueGradientAndAdam * size.trained) / kRanks;
  const int64_t units = s.prefetch == config::BackwardPrefetch::kPre ? 2 : 1;
  // Over the network Gloo gathers into a buffer of its own and copies; one group at a time, the largest being nearly
  // all of a block. It is gone again when a block that was not prefetched gets its gradients.
  const auto copy = static_cast<double>(s.shared ? 0 : size.largest.whole);
  const int64_t forward = shards + size.root.whole + size.largest.whole;
  const int64_t gradients =
      (s.bf16 ? 6 : kFloat) * size.largest.trained + kFloat * size.root.trained;  // bf16: and their fp32 copy
  const int64_t update = shards + size.root.whole + units * size.largest.whole;
  const auto with = [&](double copied) {
    return units == 2 ? update + gradients + copied : update + std::max(static_cast<double>(gradients), copied);
  };
  for (const Measured& rank : measured_by(sharded, kRanks, s.shared)) {
    // Padding of the shards to 128 bytes, and scalars: less than a thousandth of each.
    const auto within = [](const char* what, int64_t found, double least, double most) {
      EXPECT_GE(static_cast<double>(found), 0.999 * least) << what;
      EXPECT_LE(static_cast<double>(found), 1.001 * most) << what;
    };
    within("loaded", rank.loaded, static_cast<double>(shards), static_cast<double>(shards));
    // Between the two: the most activations need not be there when the most weights are.
    constexpr double kNearly = 0.9;
    within("forward", rank.forward, forward + kNearly * copy, forward + copy + forward_activations);
    within("update", rank.update, with(kNearly * copy), with(copy) + activations);
  }
  EXPECT_LT(activations, shards / 8);  // else the bounds would say little
}

INSTANTIATE_TEST_SUITE_P(Settings, FsdpMemory,
                         ::testing::Values(Setting{"Full"},
                                           Setting{"FullWithoutPrefetch", config::BackwardPrefetch::kNone},
                                           Setting{"Lora", config::BackwardPrefetch::kPre, true},
                                           Setting{"LoraWithoutPrefetch", config::BackwardPrefetch::kNone, true},
                                           Setting{"LoraBf16", config::BackwardPrefetch::kPre, true, true},
                                           Setting{"FullShared", config::BackwardPrefetch::kPre, false, false, true},
                                           Setting{"LoraShared", config::BackwardPrefetch::kPre, true, false, true},
                                           Setting{"LoraBf16Shared", config::BackwardPrefetch::kPre, true, true, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainer::testing
