#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <CLI/CLI.hpp>

#include "engine/base/errors.h"
#include "engine/base/growing_folder.h"
#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/base/log.h"
#include "engine/batching/token_batch.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/train/build.h"
#include "engine/train/combine/combine_adapters.h"
#include "engine/train/merge_adapter.h"
#include "engine/train/model_plan.h"
#include "engine/train/parallelism.h"
#include "engine/worker/commands.h"
#include "engine/worker/output.h"

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

void report(const train::MergeRequest& request, const train::MergeResult& result, const std::string& what,
            Output& output) {
  const config::Config& config = result.plan.config;
  output.line("merged {} ({}) into {}", what, counted(result.layers, "layer", "layers"), config.model.path);
  if (!result.replaced.empty())
    output.line("replaced by the adapter's own values: {}", fmt::join(result.replaced, ", "));
  if (!result.untied.empty())
    output.line("no longer tied: {}; config.json has tie_word_embeddings: false", fmt::join(result.untied, ", "));
  if (!result.left_out.empty())
    output.line("left out, as {} doesn't use them: {}", config::name_of(config.data.task),
                fmt::join(result.left_out, ", "));
  const auto weights = std::filesystem::file_size(request.output / "model.safetensors");
  output.line("wrote {} ({} of weights)", request.output.string(), human_bytes(static_cast<int64_t>(weights)));
  output.fact("output", request.output.string());
  output.fact("base", config.model.path);
  output.fact("merged", what);
  output.fact("layers", result.layers);
  output.fact("replaced", result.replaced);
  output.fact("untied", result.untied);
  output.fact("left_out", result.left_out);
  output.fact("bytes", weights);
}

void report(const train::CombineRequest& request, const train::CombineResult& result, Output& output) {
  std::vector<std::string> parts;
  for (const train::WeightedAdapter& one : request.adapters)
    parts.push_back(fmt::format("{} x {}", one.weight, one.folder.string()));
  output.line("combined {} ({}, rank {}, {})", fmt::join(parts, " + "), request.how->name, result.rank,
              counted(result.layers, "layer", "layers"));
  if (result.error) output.line("relative error of the sum of their changes: {:.1e}", *result.error);
  if (!result.whole.empty()) output.line("replaced by an adapter's own values: {}", fmt::join(result.whole, ", "));
  for (const std::string& warning : result.warnings) log::warning("{}", warning);
  output.fact("combined", parts);
  output.fact("combination", request.how->name);
  output.fact("rank", result.rank);
  if (result.error) output.fact("relative_error_of_sum", *result.error);
}

/// Merges, and compares the logits if asked. `what`: the adapter, for the report; "": by its kind and path.
void merge(const train::MergeRequest& request, bool verify, Output& output, std::string what = "") {
  const train::MergeResult result = train::merge_adapter(request);
  const config::LoraConfig& lora = *result.plan.config.lora;
  if (what.empty()) what = fmt::format("the {} adapter {}", config::adapter_title(lora.peft_type), lora.path);
  report(request, result, what, output);
  if (!verify) return;
  const double error = largest_error(request, result.plan);
  output.line("largest relative error of the merged model's logits: {:.1e} ({} samples of {} random tokens)", error,
              kSamples, kTokens);
  output.fact("relative_error_of_logits", error);
}

/// Writes the combined adapter, or merges it from a folder that is removed afterwards.
void combine(train::CombineRequest request, bool adapter_only, const train::MergeRequest& merged, bool verify,
             Output& output) {
  if (adapter_only) {
    report(request, train::combine_adapters(request), output);
    output.line("wrote the adapter {}", request.output.string());
    output.fact("output", request.output.string());
    return;
  }
  const GrowingFolder work(request.output.string() + ".adapter");  // never published
  request.output = work.path() / "combined";
  const train::CombineResult result = train::combine_adapters(request);
  report(request, result, output);
  if (result.base.empty())
    throw ConfigError("{} doesn't name its base model: give the model's folder with --base.",
                      config::adapter_config_file(merged.adapter.string()));
  merge({request.output, merged.base, merged.output, merged.dtype}, verify, output, "the combined adapter");
}

}  // namespace

int merge_command(const std::vector<std::string>& args) {
  CLI::App app{"Merge an adapter into its base model"};
  std::string output, base, dtype, combination = "linear", majority_sign;
  std::vector<std::string> folders;
  std::vector<double> weights;
  train::CombineRequest combined;
  bool verify = false, adapter_only = false, json = false;
  app.add_option("FOLDER", output)->required();
  app.add_option("ADAPTER", folders)->required();
  app.add_option("--base", base);
  app.add_option("--dtype", dtype);
  app.add_flag("--verify", verify);
  app.add_flag("--adapter_only", adapter_only);
  app.add_flag("--json", json);
  app.add_option("--weight", weights);
  app.add_option("--combination", combination);
  app.add_option("--rank", combined.rank);
  app.add_option("--density", combined.density);
  app.add_option("--majority_sign", majority_sign);
  app.add_option("--seed", combined.seed);
  app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  const train::MergeRequest request{folders.front(), base, output, train::dtype_named(dtype)};
  Output printed(json);
  if (weights.empty() && !adapter_only) {
    merge(request, verify, printed);
    printed.finish();
    return kDone;
  }
  for (size_t i = 0; i < folders.size(); ++i)
    combined.adapters.push_back({folders[i], i < weights.size() ? weights[i] : 1});
  combined.how = config::find_combination(combination);
  combined.sign_by_frequency = majority_sign == "frequency";
  combined.base = base;
  combined.output = output;
  combine(combined, adapter_only, request, verify, printed);
  printed.finish();
  return kDone;
}

}  // namespace trainer::worker
