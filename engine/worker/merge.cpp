#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <CLI/CLI.hpp>

#include "engine/base/errors.h"
#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/batching/token_batch.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/train/build.h"
#include "engine/train/merge_adapter.h"
#include "engine/train/model_plan.h"
#include "engine/train/parallelism.h"
#include "engine/worker/commands.h"

namespace trainer::worker {
namespace {

constexpr int kSamples = 4, kTokens = 32;

/// The logits of samples of random tokens, the same for every model with this vocabulary and task.
std::vector<at::Tensor> logits_of(const config::Plan& plan, const std::vector<std::string>& labels) {
  train::Blueprint blueprint = train::make_blueprint(plan, labels);
  const auto comm = dist::solo_comm();
  const auto model = train::make_parallel(plan, blueprint, *comm);
  std::mt19937 draws(7);
  const auto ids = [&] {
    std::vector<int32_t> drawn(kTokens);
    for (int32_t& id : drawn) id = static_cast<int32_t>(draws() % static_cast<uint64_t>(model->model().vocabulary()));
    return drawn;
  };
  std::vector<at::Tensor> logits;
  for (int i = 0; i < kSamples; ++i) {
    const auto source = ids(), target = ids();
    logits.push_back(
        model->model().logits(batching::token_batch({source}, {target}, model->model().task()), {}).to(at::kFloat));
  }
  return logits;
}

/// The largest relative error of the merged model's logits.
double largest_error(const train::MergeRequest& request, const config::Plan& with_adapter) {
  const at::NoGradGuard no_grad;
  const auto expected = logits_of(with_adapter, train::plan_of_adapter(request.adapter, request.base).labels);
  config::Plan merged = with_adapter;
  merged.config.lora.reset();
  merged.config.model.path = request.output.string();
  const auto found = logits_of(merged, {});
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    worst = std::max(
        worst, (at::linalg_vector_norm(found[i] - expected[i]) / at::linalg_vector_norm(expected[i])).item<double>());
  return worst;
}

void report(const train::MergeRequest& request, const train::MergeResult& result) {
  const config::Config& config = result.plan.config;
  fmt::print("merged the {} adapter {} ({}) into {}\n", config::adapter_title(config.lora->peft_type),
             config.lora->path, counted(result.layers, "layer", "layers"), config.model.path);
  if (!result.replaced.empty())
    fmt::print("replaced by the adapter's own values: {}\n", fmt::join(result.replaced, ", "));
  if (!result.untied.empty())
    fmt::print("no longer tied: {}; config.json has tie_word_embeddings: false\n", fmt::join(result.untied, ", "));
  if (!result.left_out.empty())
    fmt::print("left out, as {} doesn't use them: {}\n", config::name_of(config.data.task),
               fmt::join(result.left_out, ", "));
  const auto weights = std::filesystem::file_size(request.output / "model.safetensors");
  fmt::print("wrote {} ({} of weights)\n", request.output.string(), human_bytes(static_cast<int64_t>(weights)));
}

}  // namespace

int merge_command(const std::vector<std::string>& args) {
  CLI::App app{"Merge an adapter into its base model"};
  std::string adapter, output, base, dtype;
  bool verify = false;
  app.add_option("ADAPTER", adapter)->required();
  app.add_option("FOLDER", output)->required();
  app.add_option("--base", base);
  app.add_option("--dtype", dtype);
  app.add_flag("--verify", verify);
  app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  const train::MergeRequest request{adapter, base, output, train::dtype_named(dtype)};
  const train::MergeResult result = train::merge_adapter(request);
  report(request, result);
  if (!verify) return kDone;
  fmt::print("largest relative error of the merged model's logits: {:.1e} ({} samples of {} random tokens)\n",
             largest_error(request, result.plan), kSamples, kTokens);
  return kDone;
}

}  // namespace trainer::worker
