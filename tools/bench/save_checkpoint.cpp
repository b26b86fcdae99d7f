// trainer's half of checkpoint.py: repeatedly saves a model of about the given size, while training changes the
// weights, and prints one JSON object per save.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/snapshot.h"
#include "engine/train/build.h"

namespace {

using namespace trainer;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One copy of `bytes` bytes, into memory that is already mapped.
double copy_seconds(int64_t bytes) {
  static const at::Tensor from = at::empty({bytes}, at::kByte).fill_(1), to = at::empty({bytes}, at::kByte).fill_(2);
  const auto start = Clock::now();
  std::memcpy(to.data_ptr(), from.const_data_ptr(), static_cast<size_t>(bytes));
  return seconds_since(start);
}

config::Plan plan_of(int64_t megabytes) {
  config::Plan plan;
  constexpr int64_t kWidth = 1024,
                    kLayerBytes = 12 * (kWidth * kWidth + kWidth);  // the weights and AdamW's two moments
  std::string sizes;
  for (int64_t i = 0; i <= (megabytes << 20) / kLayerBytes; ++i) sizes += fmt::format("{}{}", i > 0 ? "," : "", kWidth);
  plan.config.model.config = fmt::format(R"({{"model_type": "mlp", "input_size": 8, "hidden_sizes": [{}]}})", sizes);
  plan.config.num_processes = 1;
  plan.config.data.task = config::Task::kImageClassification;
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: save_checkpoint FOLDER MEGABYTES SAVES\n");
    return 2;
  }
  const auto comm = dist::solo_comm();
  const config::Plan plan = plan_of(std::atoll(argv[2]));
  train::Blueprint blueprint = train::make_blueprint(plan);
  const auto model = train::make_parallel(plan, blueprint, *comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), *comm);
  const checkpoint::RunState state{*model, *optimizer};
  checkpoint::Saver saver({argv[1], {.newest = 1}, "xxh3", /*beside_training=*/true}, *comm);
  saver.prepare(state);
  const int64_t bytes = checkpoint::Snapshot(checkpoint::live_tensors(state), 0, 1).bytes();
  for (int64_t step = 1; step <= std::atoll(argv[3]); ++step) {
    copy_seconds(bytes);
    const double copy = copy_seconds(bytes);
    checkpoint::Manifest about;
    about.progress.step = step;
    const auto start = Clock::now();
    saver.begin(about, state, [](const auto&) {});
    saver.wait_for_copy();  // as if the optimizer stepped immediately
    const double pause = seconds_since(start);
    saver.finish();
    fmt::print("{{\"bytes\": {}, \"copy\": {:.4f}, \"pause\": {:.4f}, \"total\": {:.4f}}}\n", bytes, copy, pause,
               seconds_since(start));
    std::fflush(stdout);
  }
}
