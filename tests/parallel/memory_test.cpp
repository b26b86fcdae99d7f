// The memory of a rank under FSDP, measured by the counting allocator, against the expected bytes. Each rank is a
// separate process, because the allocator counts per process.
#include <algorithm>

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "engine/dist/memory.h"
#include "engine/parallel/wrap_policy.h"
#include "engine/train/build.h"
#include "tests/parallel/processes.h"
#include "tests/support/golden_case.h"

namespace trainer::testing {
namespace {

/// Bytes, as measured by one process.
struct Measured {
  int64_t loaded = 0;   // after loading the model and creating the optimizer state
  int64_t forward = 0;  // the peak of a forward pass without gradients …
  int64_t update = 0;   // … and of the second update
};

/// A model's sizes: the memory it holds permanently, and that gathered in addition while a unit is used.
struct Size {
  int64_t frozen = 0, trained = 0;  // bytes, elements
  struct Unit {
    int64_t whole = 0, trained = 0;  // bytes, elements
  };
  Unit root, largest;  // the largest one, with its enclosing units
  int64_t ahead = 0;   // the largest one that may be prefetched in addition
};

struct Setting {
  std::string name;
  config::BackwardPrefetch prefetch = config::BackwardPrefetch::kPre;
  bool lora = false, bf16 = false;
  bool shared = false;  // the ranks share memory: only casts exist besides the shards
  int ranks = 2;
  std::vector<std::string> classes = {};  // classes of units
  int64_t min_num_params = 0;             // units by size; 0: by class
};

config::Plan plan_of(config::DistributedType type, const Setting& s) {
  config::Plan plan;
  config::Config& c = plan.config;
  c.model.config =
      R"({"model_type": "t5", "vocab_size": 64, "d_model": 256, "d_kv": 64, "d_ff": 1024, "num_layers": 4, "num_heads": 4})";
  c.distributed_type = type;
  c.fsdp_config.backward_prefetch = s.prefetch;
  c.fsdp_config.transformer_layer_cls_to_wrap = s.classes;
  if (s.min_num_params > 0) {
    c.fsdp_config.auto_wrap_policy = config::WrapPolicy::kSizeBased;
    c.fsdp_config.min_num_params = s.min_num_params;
  }
  c.num_processes = type == config::DistributedType::kFsdp ? s.ranks : 1;
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
  // The same small amount of work on every rank.
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
  const auto add = [&](const nn::ParameterPtr& p, Size::Unit& unit) {
    const int64_t seen = p->numel() * (s.bf16 && p->linear ? kBf16 : kFloat);
    const bool cast = s.bf16 && p->linear && p->trainable;
    unit.whole += s.shared && !cast ? 0 : seen;
    (p->trainable ? size.trained : size.frozen) += p->trainable ? p->numel() : seen;
    if (p->trainable) unit.trained += p->numel();
  };
  std::vector<std::pair<std::string, Size::Unit>> units;  // inner units before outer ones
  for (const auto& [module, parameters] : parallel::plan_units(*model, plan.config.fsdp_config)) {
    const bool root = module == model.get();
    if (!root) units.push_back({module->path() + ".", {}});
    for (const nn::ParameterPtr& p : parameters) add(p, root ? size.root : units.back().second);
  }
  for (const auto& [path, unit] : units) {
    Size::Unit chain;
    for (const auto& [outer, around] : units)
      if (path.starts_with(outer)) chain = {chain.whole + around.whole, chain.trained + around.trained};
    size.largest = {std::max(size.largest.whole, chain.whole), std::max(size.largest.trained, chain.trained)};
    size.ahead = std::max(size.ahead, unit.whole);
  }
  return size;
}

/// Runs the plan in `ranks` processes; returns each one's measurement.
std::vector<Measured> measured_by(const config::Plan& plan, int ranks, bool share_memory) {
  return in_processes<Measured>(ranks, share_memory,
                                [&](dist::Comm& comm, const std::string&) { return measure(plan, comm); });
}

class FsdpMemory : public ::testing::TestWithParam<Setting> {};

TEST_P(FsdpMemory, MatchesTheExpectedBytes) {
  constexpr int64_t kFloat = 4, kValueGradientAndAdam = 4 * kFloat;
  const Setting& s = GetParam();
  const bool nested = !s.classes.empty() || s.min_num_params > 0;
  const config::Plan alone = plan_of(config::DistributedType::kNo, s),
                     sharded = plan_of(config::DistributedType::kFsdp, s);
  const Size size = size_of(sharded, s);
  // What one rank holds besides values, gradients and optimizer state: activations, and gradients in transit.
  const Measured one = measured_by(alone, 1, false)[0];
  const int64_t forward_activations = one.forward - one.loaded, activations = one.update - one.loaded;
  // Gradients in shared memory stay: the root's, and those of two units.
  const int64_t kept = s.shared && !s.bf16 ? kFloat * (size.root.trained + 2 * size.largest.trained) : 0;
  const int64_t shards = (size.frozen + kValueGradientAndAdam * size.trained) / s.ranks + kept;
  const bool ahead = s.prefetch == config::BackwardPrefetch::kPre;
  // Over the network, Gloo gathers into its own buffer and copies: one group at a time, the largest being nearly all of
  // a block. The buffer is freed before a block that was not prefetched gets its gradients.
  const auto copy = static_cast<double>(s.shared ? 0 : size.ahead);
  const int64_t forward = shards + size.root.whole + size.largest.whole;
  const int64_t gradients = kept > 0 ? 0
                                     : (s.bf16 ? 6 : kFloat) * size.largest.trained +  // bf16: plus their fp32 copy
                                           kFloat * size.root.trained;
  const int64_t update = shards + size.root.whole + size.largest.whole + (ahead ? size.ahead : 0);
  const auto with = [&](double copied) {
    return ahead || nested ? update + gradients + copied : update + std::max(static_cast<double>(gradients), copied);
  };
  for (const Measured& rank : measured_by(sharded, s.ranks, s.shared)) {
    // Shards are padded to 128 bytes, and there are scalars: less than a thousandth of each.
    const auto within = [](const char* what, int64_t found, double least, double most) {
      EXPECT_GE(static_cast<double>(found), 0.999 * least) << what;
      EXPECT_LE(static_cast<double>(found), 1.001 * most) << what;
    };
    within("loaded", rank.loaded, static_cast<double>(shards), static_cast<double>(shards));
    // Bounds: the peaks of activations and weights don't have to coincide.
    constexpr double kNearly = 0.9;
    // The same holds for the largest prefetched unit if nested units have different sizes.
    const double least = nested ? size.ahead + size.largest.trained * kFloat : 0;
    within("forward", rank.forward, forward + kNearly * copy - (nested ? size.ahead : 0),
           forward + copy + forward_activations);
    within("update", rank.update, with(kNearly * copy) - least, with(copy) + activations);
  }
  EXPECT_LT(activations, shards * s.ranks / 16);  // otherwise the bounds would be too loose
}

INSTANTIATE_TEST_SUITE_P(
    Settings, FsdpMemory,
    ::testing::Values(
        Setting{"Full"}, Setting{"FullWithoutPrefetch", config::BackwardPrefetch::kNone},
        Setting{"Lora", config::BackwardPrefetch::kPre, true},
        Setting{"LoraWithoutPrefetch", config::BackwardPrefetch::kNone, true},
        Setting{"LoraBf16", config::BackwardPrefetch::kPre, true, true},
        Setting{"FullShared", config::BackwardPrefetch::kPre, false, false, true},
        Setting{"LoraShared", config::BackwardPrefetch::kPre, true, false, true},
        Setting{"LoraBf16Shared", config::BackwardPrefetch::kPre, true, true, true},
        Setting{"FullOf4", config::BackwardPrefetch::kPre, false, false, false, 4},
        Setting{"FullSharedOf4", config::BackwardPrefetch::kPre, false, false, true, 4},
        Setting{"Nested", config::BackwardPrefetch::kPre, false, false, false, 2, {"T5Block", "T5LayerFF"}},
        Setting{
            "NestedWithoutPrefetch", config::BackwardPrefetch::kNone, false, false, false, 2, {"T5Block", "T5LayerFF"}},
        Setting{"BySize", config::BackwardPrefetch::kPre, false, false, false, 2, {}, 500'000}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainer::testing
