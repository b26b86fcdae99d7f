#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/files.h"
#include "engine/base/listed.h"
#include "engine/base/metrics.h"
#include "engine/base/terminal_text.h"
#include "engine/config/plan/reference_model.h"
#include "engine/evaluation/evaluate.h"
#include "engine/report/confusion.h"
#include "engine/train/build.h"
#include "engine/train/evaluation_request.h"
#include "engine/train/preferences/reference.h"
#include "engine/worker/commands.h"
#include "engine/worker/rank.h"

namespace trainer::worker {
namespace {

/// What the command line asks for.
struct EvaluationOutput {
  std::string model;        // for the report
  std::string predictions;  // a file; "": none
  bool json = false;
  config::ReferenceModel reference;  // of pairs
};

std::string table(const std::string& model, int64_t samples, const evaluation::Result& result,
                  const report::Confusion& confusion) {
  std::string text = wrapped_for(
      STDOUT_FILENO, fmt::format("{} on {}\n", model, counted(samples, "validation sample", "validation samples")));
  for (const Metric& metric : all_metrics())
    if (const auto found = result.values.find(std::string("eval_") + metric.name); found != result.values.end())
      text += fmt::format("  {:<22}{:.6g}\n", metric.name, found->second);
  return text + report::confusion_text(confusion);
}

std::string json_text(const std::string& model, int64_t samples, const evaluation::Result& result,
                      const report::Confusion& confusion) {
  nlohmann::ordered_json all{{"model", model}, {"samples", samples}};
  for (const auto& [name, value] : result.values) all[name] = value;
  if (!confusion.labels.empty())
    all["confusion"] = {{"labels", confusion.labels}, {"predictions", confusion.answers}, {"counts", confusion.counts}};
  return all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Of a classifier; empty for other models.
report::Confusion confusion_of(const evaluation::Result& result, const std::vector<std::string>& classes) {
  std::vector<report::Prediction> predictions;
  for (const evaluation::Prediction& one : result.predictions)
    predictions.push_back({.input = {}, .prediction = one.prediction, .label = one.label});
  return classes.empty() ? report::confusion_of(predictions) : report::confusion_of(predictions, classes);
}

/// Collective. The model of a blueprint, whose weights are not trained.
std::unique_ptr<parallel::ParallelModel> load(Rank& rank, const config::Plan& plan, train::Blueprint& blueprint,
                                              const dist::MeshPtr& mesh) {
  rank.report(-1, "loading the weights");
  for (const nn::ParameterPtr& p : blueprint.model->all_parameters()) p->trainable = false;
  return train::make_parallel(plan, blueprint, mesh);
}

/// Collective. Gives the validation pairs the log-probabilities of the model that their run started from, which is in
/// memory only meanwhile.
void add_reference(Rank& rank, const config::ReferenceModel& reference, const dist::MeshPtr& mesh) {
  config::Plan start = rank.plan;
  use_reference(start.config, reference);
  train::Blueprint blueprint = train::make_blueprint(start);
  const auto model = load(rank, start, blueprint, mesh);
  rank.report(-1, "evaluating the reference");
  auto& pairs = rank.setup.inputs.datasets.validation;
  pairs = train::with_reference(*model, std::move(pairs), rank.plan.config.training);
  rank.comm->barrier();  // ranks may still read this one's shards
}

train::Ending evaluate(Rank& rank, const EvaluationOutput& output) {
  const at::NoGradGuard no_grad;
  const config::Config& config = rank.plan.config;
  prepare::Inputs& inputs = rank.setup.inputs;
  const dist::MeshPtr mesh = train::mesh_of(rank.plan, *rank.comm);
  if (config.dpo) add_reference(rank, output.reference, mesh);
  const auto model = load(rank, rank.plan, rank.setup.blueprint, mesh);
  const bool generates = config.evaluation.generate || !output.predictions.empty();
  const auto request = train::evaluation_request(config, inputs, generates, [&](const std::string& activity) {
    rank.report(-1, activity.empty() ? "evaluating" : activity.c_str());
  });
  const evaluation::Result result = evaluation::evaluate(*model, request);
  if (rank.comm->rank() != 0) return train::Ending::kDone;
  if (!output.predictions.empty()) evaluation::write_predictions(output.predictions, result.predictions);
  const auto confusion =
      model->model().classifies() ? confusion_of(result, inputs.datasets.labels) : report::Confusion();
  // Not through screen::print(), which drops what can't be written: here it is what the command is for.
  write_all(STDOUT_FILENO, (output.json ? json_text : table)(output.model, request.samples.size(), result, confusion),
            "standard output");
  return train::Ending::kDone;
}

}  // namespace

int evaluate_command(const std::vector<std::string>& args) {
  CLI::App app("Evaluate a model.", "eval");
  EvaluationOutput output;
  app.add_option("--model", output.model);
  app.add_option("--predictions", output.predictions);
  app.add_flag("--json", output.json);
  std::string reference;
  app.add_option("--reference", reference);
  app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  if (!reference.empty()) output.reference = config::reference_from(reference);
  return run_rank([&](Rank& rank) { return evaluate(rank, output); });
}

}  // namespace trainer::worker
