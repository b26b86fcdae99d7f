// The memory plan of a GPU run against the memory its tensors hold: like memory_plan_test.cpp, but with tensors off the
// CPU. Each rank is a separate process, because a process has only one thread per device for backward.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "engine/dist/device_comm.h"
#include "engine/dist/memory.h"
#include "engine/evaluation/generate.h"
#include "engine/train/device_layers.h"
#include "engine/train/memory_plan.h"
#include "engine/weights/export.h"
#include "models/nn/device/device_kernels.h"
#include "models/nn/reference/attention.h"
#include "tests/parallel/device_setting.h"
#include "tests/parallel/processes.h"
#include "tests/simulated/device.h"
#include "tests/simulated/kernels.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

train::Workload workload_of(const Setting& s) {
  const auto sum = [](const Lengths& of) { return std::accumulate(of.begin(), of.end(), int64_t{0}); };
  const bool causal = s.family.task == config::Task::kCausalLm;
  const Lengths labels = labels_of(s);
  train::Workload workload;
  workload.training.kind = causal                                      ? data::LabelKind::kNext
                           : s.family.task == config::Task::kSeq2SeqLm ? data::LabelKind::kTarget
                                                                       : data::LabelKind::kClass;
  workload.training.batches = {{s.lengths, causal ? Lengths() : labels, sum(labels)}};
  workload.training.tokens_of_update = s.micro_batches * (sum(s.lengths) + sum(labels));
  workload.evaluation = workload.training;
  workload.new_tokens = workload.training.kind == data::LabelKind::kClass ? 0 : kNewTokens;
  workload.transport = dist::Transport::kDevicesOverGloo;
  return workload;
}

/// Bytes on the device, as measured or planned by one process.
struct Bytes {
  int64_t held = 0, training = 0, evaluation = 0, saving = 0;
  int64_t host = 0;  // in host memory: planned at most, measured throughout
};
struct Found {
  Bytes planned, measured;
};

Bytes planned(const Setting& s) {
  const config::Plan plan = plan_of(s);
  const train::MemoryPlan memory = train::plan_memory(plan, train::make_blueprint(plan), workload_of(s));
  return {memory.held(), memory.training(), memory.evaluation, memory.saving, memory.host};
}

Bytes measure(const Setting& s, dist::Comm& host, const std::string& folder) {
  std::vector<int> all(static_cast<size_t>(host.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto comm = dist::device_comm(host.group("device", all), nullptr, device());
  dist::count_tensor_memory();
  const int64_t host_before = dist::tensor_bytes();
  simulated::forget_peak(0);
  const int64_t before = simulated::peak_bytes(0);
  const auto peak_of = [&](const auto& work) {
    simulated::forget_peak(0);
    work();
    return simulated::peak_bytes(0) - before;
  };
  const config::Plan plan = plan_of(s);
  const auto model = make_model(plan, *comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), *comm);
  Bytes m;
  m.held = peak_of([] {});
  m.host = dist::tensor_bytes() - host_before + simulated::held_pinned_bytes();
  nn::Pass pass;
  pass.training = true;
  m.training = peak_of([&] {
    for (int update = 0; update < 2; ++update) {
      model->update(std::vector<models::Batch>(static_cast<size_t>(s.micro_batches), real_batch(s)), 1000, pass);
      optimizer->step(model->logical_tensors(), 1e-3);
      model->zero_grad();
    }
  });
  m.evaluation = peak_of([&] {
    const models::Batch batch = real_batch(s);
    model->evaluate(batch, {});
    if (workload_of(s).new_tokens > 0) evaluation::generate(*model, batch, kNewTokens, {});
  });
  m.saving = peak_of([&] {
    checkpoint::export_weights(*model, folder + "/model.safetensors", [&](const parallel::LogicalTensor& tensor) {
      return tensor.trainable || !s.lora ? tensor.name : "";
    });
  });
  return m;
}

void use_kernels(bool used) {
  nn::use_device_kernels(simulated::kType, used ? &simulated::kernels() : nullptr);
  train::set_kernels_in_dry_runs(used);
}

/// The maximum over ranks. The plan is computed in those processes too: a backward pass starts a thread per device,
/// which a process forked later would lack.
Found found(const Setting& s) {
  Found most;
  for (const Found& rank : in_processes<Found>(static_cast<int>(s.ranks()), /*share_memory=*/false,
                                               [&](dist::Comm&comm, const std::string&folder) {
                                                 use_kernels(s.kernels);
                                                 const Bytes measured = measure(s, comm, folder);
                                                 return Found{planned(s), measured};
                                               })) {
    Bytes& m = most.measured;
    m = {std::max(m.held, rank.measured.held), std::max(m.training, rank.measured.training),
         std::max(m.evaluation, rank.measured.evaluation), std::max(m.saving, rank.measured.saving),
         std::max(m.host, rank.measured.host)};
    most.planned = rank.planned;
  }
  return most;
}

/// Returns what was measured.
Bytes expect_near(const Setting& s) {
  const auto [plan, held] = found(s);
  const auto ratio = [](int64_t planned, int64_t measured) {
    if (planned == measured) return 1.0;  // both may be 0
    return static_cast<double>(planned) / static_cast<double>(measured);
  };
  const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::printf("| %s | %.1f | %.1f | %.1f | %.3f | %.3f | %.3f | %.3f |\n", s.name().c_str(), mebibytes(plan.held),
              mebibytes(plan.training), mebibytes(held.training), ratio(plan.held, held.held),
              ratio(plan.training, held.training), ratio(plan.evaluation, held.evaluation),
              ratio(plan.saving, held.saving));
  // With offload, the plan of a training step is up to 3.6 % low (half a MiB here), which isn't explained yet.
  const double tolerance = s.offload ? 0.04 : 0.03;
  if (s.offload) {
    // Shards and states stay there; the plan adds the temporaries of an update, or the whole tensor that is saved.
    std::printf("of the host: %.2f, at least %.2f\n", mebibytes(plan.host), mebibytes(held.host));
    EXPECT_GE(plan.host, held.host);
    EXPECT_LT(plan.host, held.host + (int64_t{1} << 20));
    EXPECT_EQ(held.held, 0);
  }
  EXPECT_NEAR(ratio(plan.held, held.held), 1, tolerance);
  EXPECT_NEAR(ratio(plan.training, held.training), 1, tolerance);
  EXPECT_NEAR(ratio(plan.evaluation, held.evaluation), 1, tolerance);
  EXPECT_NEAR(ratio(plan.saving, held.saving), 1, tolerance);
  return held;
}

class DeviceMemory : public ::testing::TestWithParam<Setting> {};

TEST_P(DeviceMemory, PlanMatchesMeasurement) {
  expect_near(GetParam());
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Family& family : {kLlama, kGpt2, kT5, kBert})
    for (const bool lora : {false, true}) {
      all.push_back({family, kNo, lora});
      all.push_back({family, kFsdp, lora, /*recompute=*/false, /*bf16=*/lora});
    }
  for (const bool lora : {false, true}) {
    all.push_back({kLlama, kNo, lora, false, false, kEqual});
    all.push_back({kLlama, kNo, lora, /*recompute=*/true, false, kEqual});
    all.push_back({kLlama, kFsdp, lora, /*recompute=*/true, /*bf16=*/true, kEqual, /*micro_batches=*/2});
    all.push_back({kLlama, kFsdp, lora, false, /*bf16=*/lora, kRagged, /*micro_batches=*/2, 1, /*offload=*/true});
    // DDP alone is missing: c10d's reducer calls the process group directly, which doesn't know this device.
    all.push_back({kLlama, kDdp, lora, false, false, kEqual, 1, /*tensor=*/2});
  }
  for (const Packed packed : {Packed::kOnce, Packed::kTwice}) {
    Setting four_bits{kLlama, kNo, /*lora=*/true, /*recompute=*/true, /*bf16=*/true};
    four_bits.packed = packed;
    all.push_back(four_bits);
    four_bits.type = kFsdp;
    all.push_back(four_bits);
  }
  // The same layers with kernels.
  for (const Family& family : {kLlama, kGpt2, kT5, kBert})
    for (const bool lora : {false, true}) all.push_back({family, kNo, lora, /*recompute=*/false, /*bf16=*/lora});
  all.push_back({kLlama, kFsdp, true, /*recompute=*/true, /*bf16=*/true, kEqual, /*micro_batches=*/2});
  all.push_back(all[all.size() - 1]);
  all.back().packed = Packed::kTwice;
  for (size_t i = all.size() - 10; i < all.size(); ++i) all[i].kernels = true;
  for (const bool kernels : {false, true}) {
    Setting narrow{kLlama, kNo};
    narrow.kernels = kernels;
    narrow.saved = config::SavedActivations::kBfloat16;
    all.push_back(narrow);
    narrow.saved = config::SavedActivations::kInt8;
    narrow.lora = narrow.bf16 = true;
    all.push_back(narrow);
  }
  return all;
}

/// 16 MiB in fp32, of which a chunk has an eighth, and the reference layer needs as much again.
TEST(HeadLoss, NeedsTheMemoryOfAChunkOfTheLogits) {
  Family wide = kLlama;
  std::string config = kLlama.config;
  config.replace(config.find("size\": 512"), 10, "size\": 8192");
  wide.config = config.c_str();
  constexpr int64_t kLogits = 512 * 8192 * 4;
  const auto in_chunks_of = [](const char* rows, const Setting& setting) {
    setenv("TRAINER_LOSS_ROWS", rows, 1);  // read in the processes of the measurement
    const Bytes found = expect_near(setting);
    unsetenv("TRAINER_LOSS_ROWS");
    return found;
  };
  for (const bool lora : {false, true}) {
    const Setting setting{wide, kNo, lora, /*recompute=*/true, false, kEqual};
    const Bytes whole = in_chunks_of("512", setting), chunked = in_chunks_of("64", setting);
    EXPECT_GT(whole.training - chunked.training, lora ? kLogits : 0);
    EXPECT_GT(whole.evaluation - chunked.evaluation, kLogits);
  }
}

/// With a soft cap, which libtorch's fused operators don't have. The scores of one head are 1 MiB.
TEST(ReferenceAttention, HoldsTheScoresOfSomeHeadsAtATime) {
  constexpr int64_t kTokens = 512, kHeads = 8, kWidth = 4;
  const auto peak_with = [&](int64_t most_scores) {
    return in_processes<int64_t>(1, /*share_memory=*/false, [&](dist::Comm&, const std::string&) {
      const auto rows = std::make_shared<nn::Layout>();
      rows->append(kTokens, 0);
      const auto made = [&] {
        return at::ones({kTokens, kHeads * kWidth}, at::TensorOptions(device())).requires_grad_();
      };
      const at::Tensor q = made(), k = made(), v = made();
      simulated::forget_peak(0);
      const int64_t before = simulated::peak_bytes(0);
      nn::AttentionOptions options{.heads = kHeads, .causal = true};
      options.soft_cap = 30;
      nn::reference::packed_attention(q, k, v, {}, rows, rows, options, most_scores).sum().backward();
      return simulated::peak_bytes(0) - before;
    }).front();
  };
  const int64_t all = peak_with(kHeads * kTokens * kTokens), two = peak_with(2 * kTokens * kTokens);
  EXPECT_GT(all, kHeads << 21);
  EXPECT_LT(two, all / 3);
}

/// Of eight blocks, at most two are on the device, instead of all with their gradients and optimizer state.
TEST(Offload, DeviceMemoryShrinksByMostOfWhatIsOffloaded) {
  Family deep = kLlama;
  std::string config = kLlama.config;
  config.replace(config.find("layers\": 3"), 10, "layers\": 8");
  deep.config = config.c_str();
  for (const bool lora : {false, true}) {
    Setting setting{deep, kFsdp, lora, /*recompute=*/true, false, kEqual};
    setting.alone = true;
    const Bytes without = found(setting).measured;
    setting.offload = true;
    const Bytes with = expect_near(setting);
    EXPECT_GT(without.training - with.training, without.held / 2);
    EXPECT_EQ(with.host, without.held);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, DeviceMemory, ::testing::ValuesIn(settings()), [](const auto& tested) {
  std::string name = tested.param.name();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace trainer::testing
