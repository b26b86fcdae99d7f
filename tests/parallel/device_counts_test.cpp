// What the host asks of a device in an update: copies and waits, and the launches of a layer.
#include <gtest/gtest.h>

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include "engine/dist/device_comm.h"
#include "models/nn/device/attention_choice.h"
#include "models/nn/device/device_kernels.h"
#include "models/nn/device/norms.h"
#include "models/nn/rms_norm.h"
#include "tests/parallel/device_setting.h"
#include "tests/parallel/processes.h"
#include "tests/simulated/device.h"
#include "tests/simulated/kernels.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

/// Of one update, after the first.
struct Counts {
  int64_t copies = 0, synchronizations = 0;
};

Counts counts_of(const Setting& s, double max_norm, double loss_scale) {
  return in_processes<Counts>(
             1, /*share_memory=*/false,
             [&](dist::Comm& host, const std::string&) {
               const auto comm = dist::device_comm(host.group("device", {0}), nullptr, device());
               const config::Plan plan = plan_of(s);
               const auto model = make_model(plan, *comm);
               const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), *comm);
               model->set_loss_scale(loss_scale);
               nn::Pass pass;
               pass.training = true;
               simulated::Counters before;
               for (int update = 0; update < 2; ++update) {
                 std::vector<models::Batch> batches;
                 for (int64_t i = 0; i < s.micro_batches; ++i) batches.push_back(real_batch(s));
                 before = simulated::counters();
                 model->update(batches, 1000, pass);
                 if (const double norm = model->clip_grad_norm(max_norm); !std::isfinite(norm) || norm == 0)
                   throw std::runtime_error("there is no gradient");
                 optimizer->step(model->logical_tensors(), 1e-3);
                 model->zero_grad();
               }
               const simulated::Counters after = simulated::counters();
               return Counts{after.copies - before.copies, after.synchronizations - before.synchronizations};
             })
      .front();
}

// With dropout. Each micro-batch sends its token ids, labels and the layout's numbers, once for all layers; LLaMA its
// rotary table; GPT-2 and BERT position ids; BERT token types, the first row of each sample and the layout of these; T5
// the ids and layout of its second sequence, and the buckets of two position biases. The host waits once, after all
// micro-batches, to read the loss and the gradients' norm; and reads them in one copy.
TEST(DeviceCopies, DoNotDependOnTheLayers) {
  const auto with = [](Family family, int64_t micro_batches) {
    return Setting{family, kNo, false, false, false, {12, 40, 3}, micro_batches};
  };
  Setting half = with(kLlama, 1);
  half.bf16 = half.recompute = true;
  for (const auto& [s, of_micro_batch] : std::vector<std::pair<Setting, int64_t>>{
           {with(kLlama, 2), 4}, {half, 4}, {with(kGpt2, 1), 4}, {with(kT5, 1), 7}, {with(kBert, 1), 7}})
    for (const auto& [max_norm, loss_scale] : {std::pair{1e-3, 1.0}, std::pair{0.0, 1.0}, std::pair{0.0, 256.0}}) {
      const Counts found = counts_of(s, max_norm, loss_scale);
      EXPECT_EQ(found.copies, s.micro_batches * of_micro_batch + 1) << s.name();
      EXPECT_EQ(found.synchronizations, 1) << s.name();
    }
}

/// Launches in one micro-batch, and at the end of an update: norm, clipping, optimizer, zeroing.
struct Launches {
  int64_t forward = 0, backward = 0, end = 0;
  char names[4096]{};  // those of one more layer, by operator
};

using Names = std::map<std::string, int64_t>;

std::string text_of(const Names& more, const Names& fewer) {
  std::string text;
  for (const auto& [name, count] : more)
    if (const auto known = fewer.find(name); count > (known == fewer.end() ? 0 : known->second))
      text += fmt::format(" {} {},", count - (known == fewer.end() ? 0 : known->second), name);
  return text;
}

struct Measured {
  int64_t forward, backward, end;
  Names forward_names, backward_names;
};

Names operator-(const Names& after, const Names& before) {
  Names between = after;
  for (const auto& [name, count] : before) between[name] -= count;
  return between;
}

Measured measured(const Setting& s, dist::Comm& comm) {
  const config::Plan plan = plan_of(s);
  const auto model = make_model(plan, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  nn::Pass pass;
  pass.training = true;
  pass.compute = model->precision().compute;
  Measured found{};
  for (int update = 0; update < 2; ++update) {  // the optimizer makes its state in the first
    const Names start = simulated::launches_by_name();
    const int64_t before = simulated::counters().launches;
    const at::Tensor loss = model->model().loss_sum(real_batch(s), pass);
    const Names middle = simulated::launches_by_name();
    const int64_t between = simulated::counters().launches;
    loss.backward();
    const int64_t after = simulated::counters().launches;
    found = {between - before, after - between, 0, middle - start, simulated::launches_by_name() - middle};
    model->clip_grad_norm(1e-3);
    optimizer->step(model->logical_tensors(), 1e-3);
    model->zero_grad();
    found.end = simulated::counters().launches - after;
  }
  return found;
}

/// What one more layer costs (of T5, one in the encoder and one in the decoder), with all of libtorch's fused operators
/// and the emulated kernels; `plain`: as reference layers only.
Launches of_a_layer(const Setting& s, bool plain = false) {
  return in_processes<Launches>(
             1, /*share_memory=*/false,
             [&](dist::Comm& host, const std::string&) {
               const auto comm = dist::device_comm(host.group("device", {0}), nullptr, device());
               if (plain) {
                 nn::use_fused_attention(simulated::kType, {});
                 nn::use_fused_norms(simulated::kType, false);
               } else {
                 nn::use_device_kernels(simulated::kType, &simulated::kernels());
               }
               const Measured few = measured(s, *comm);
               std::string config = s.family.config;
               const size_t digit = config.find_first_of("23", config.find("layer"));
               ++config[digit];
               Setting deeper = s;
               deeper.family.config = config.c_str();
               const Measured more = measured(deeper, *comm);
               Launches found{more.forward - few.forward, more.backward - few.backward, more.end - few.end};
               const std::string names = "forward" + text_of(more.forward_names, few.forward_names) + " backward" +
                                         text_of(more.backward_names, few.backward_names);
               names.copy(found.names, sizeof found.names - 1);
               return found;
             })
      .front();
}

struct Expected {
  Family family;
  bool lora, bf16;
  int64_t forward, backward;
};

// With dropout. A failure lists the operators. In fp32, dropout rules out flash attention, and memory-efficient
// attention with padding makes its masks from small operators. The end of an update is a constant number of launches.
TEST(DeviceLaunches, OfALayerAreThese) {
  for (const Expected& expected : {
           Expected{kLlama, false, false, 17, 40},
           Expected{kLlama, false, true, 22, 45},
           Expected{kLlama, true, false, 23, 35},
           Expected{kLlama, true, true, 25, 37},
           Expected{kGpt2, false, false, 48, 101},
           Expected{kGpt2, false, true, 20, 43},
           Expected{kGpt2, true, false, 51, 90},
           Expected{kGpt2, true, true, 17, 26},
           Expected{kT5, false, false, 117, 241},
           Expected{kT5, false, true, 110, 223},
           Expected{kT5, true, false, 135, 218},
           Expected{kT5, true, true, 124, 195},
           Expected{kBert, false, false, 48, 110},
           Expected{kBert, false, true, 26, 58},
           Expected{kBert, true, false, 54, 98},
           Expected{kBert, true, true, 24, 38},
       }) {
    Setting s{expected.family, kNo, expected.lora, /*recompute=*/false, expected.bf16, {12, 40, 3}};
    const Launches found = of_a_layer(s);
    std::printf("| %s | %ld | %ld |\n", s.name().c_str(), found.forward, found.backward);
    EXPECT_EQ(found.forward, expected.forward) << s.name() << ": " << found.names;
    EXPECT_EQ(found.backward, expected.backward) << s.name();
    EXPECT_EQ(found.end, 0) << s.name();
  }
}

// docs/gpu.md has the table.
TEST(DeviceLaunches, OfAReferenceLayerAreMore) {
  for (const Family& family : {kLlama, kGpt2, kT5, kBert})
    for (const bool bf16 : {false, true})
      for (const bool lora : {false, true}) {
        const Setting s{family, kNo, lora, /*recompute=*/false, bf16, {12, 40, 3}};
        const Launches plain = of_a_layer(s, /*plain=*/true), now = of_a_layer(s);
        std::printf("| %s | %ld + %ld | %ld + %ld |\n", s.name().c_str(), plain.forward, plain.backward, now.forward,
                    now.backward);
        EXPECT_LT(now.forward + now.backward, plain.forward + plain.backward) << s.name();
      }
}

constexpr int64_t kNormRows = 128, kNormWidth = 256;

/// What is held on the device after a norm of fp32 rows, which nothing else holds.
int64_t held_after_norm(at::ScalarType out_dtype, bool trains) {
  return in_processes<int64_t>(1, /*share_memory=*/false,
                               [&](dist::Comm&, const std::string&) {
                                 nn::use_device_kernels(simulated::kType, &simulated::kernels());
                                 const at::Tensor rows = at::randn({kNormRows, kNormWidth}).to(device());
                                 const at::Tensor weight = at::ones({kNormWidth}).to(device());
                                 rows.requires_grad_(trains);
                                 const int64_t before = simulated::held_bytes(0);
                                 at::Tensor norm;
                                 {
                                   const at::Tensor x = rows * 2.0;
                                   norm = nn::rms_norm(x, weight, 1e-6, out_dtype);
                                 }
                                 return simulated::held_bytes(0) - before;
                               })
      .front();
}

TEST(DeviceNorms, SaveTheNarrowerRows) {
  constexpr int64_t kElements = kNormRows * kNormWidth, kScales = kNormRows * 4;
  EXPECT_EQ(held_after_norm(at::kFloat, true), 4 * kElements + 4 * kElements + kScales);     // the norm, x, scales
  EXPECT_EQ(held_after_norm(at::kBFloat16, true), 2 * kElements + 2 * kElements + kScales);  // normalized x
  EXPECT_EQ(held_after_norm(at::kBFloat16, false), 2 * kElements);
}

}  // namespace
}  // namespace trainer::testing
