// Checkpoints, evaluation and logging.
#include <algorithm>

#include "engine/base/metrics.h"
#include "engine/config/tables.h"
#include "engine/config/trackers.h"

namespace trainer::config {

namespace {

std::vector<std::string> metrics_or_none() {
  std::vector<std::string> names = metric_names();
  names.insert(names.begin(), "none");
  return names;
}

std::vector<std::string> report_to_names() {
  std::vector<std::string> names{"none", "all", "tensorboard", "mlflow"};
  for (std::string& name : trackers_elsewhere()) names.push_back(std::move(name));
  return names;
}

}  // namespace

const Entries& checkpoint_table() {
  using C = CheckpointConfig;
  auto by_steps = [](const Config& c) { return c.checkpoint.save_strategy == SaveStrategy::kSteps; };
  auto saves = [](const Config& c) {
    const SaveStrategy strategy = c.checkpoint.save_strategy;
    return strategy != SaveStrategy::kNo && (strategy != SaveStrategy::kSteps || c.checkpoint.save_steps > 0);
  };
  auto is_unsigned = [](const Config& c) { return c.checkpoint.sign.empty(); };
  auto has_metric = [](const Config& c) { return validates(c) && c.checkpoint.metric_for_best_model != "none"; };
  static const Entries entries = table<C>(
      option("save_strategy", &C::save_strategy)
          .help(
              "When to save, apart from the end: steps: every save_steps updates; epoch: after each epoch; best: after "
              "each evaluation that is the best so far, by metric_for_best_model; no: never."),
      option("save_steps", &C::save_steps)
          .help("Updates between checkpoints. 0: only at the end.")
          .ask("How many updates between checkpoints? (0: only at the end)")
          .at_least(0)
          .when("save_strategy is steps", by_steps),
      option("save_total_limit", &C::save_total_limit)
          .help("Number of checkpoints to keep; older ones are deleted. 0: all.")
          .ask("How many checkpoints should be kept? (0: all)")
          .at_least(0)
          .when("checkpoints are saved before the end", saves),
      option("metric_for_best_model", &C::metric_for_best_model)
          .help("Metric of the best checkpoint (lowest loss, perplexity or rewards/rejected, highest of the others), "
                "which save_total_limit never deletes. An evaluation precedes each scheduled save, even if eval_steps "
                "schedules none; "
                "checkpoints requested at other steps are not considered.")
          .one_of(metrics_or_none())
          .when("there are validation samples", validates),
      option("load_best_model_at_end", &C::load_best_model_at_end)
          .help("The final model or adapter is that of the best checkpoint instead of the last one.")
          .when("metric_for_best_model names a metric", has_metric),
      option("async_save", &C::async_save)
          .help("Pauses training only for a copy in memory, which is written in the background. Takes 12 bytes per "
                "trained parameter, spread over the ranks."),
      option("on_error", &C::on_error)
          .help("What to do if a checkpoint can't be written (disk full, …): warn keeps the earlier ones and tries "
                "again at the next save; stop ends the run. The last checkpoint of a run must always be written.")
          .one_of({"warn", "stop"}),
      option("replicas", &C::replicas)
          .help(
              "Copies of each checkpoint, on this many machines, when the machines share no output_dir: the leader's, "
              "and those that other machines keep in theirs. A run resumes from the newest one that any machine has. "
              "1: only the leader's.")
          .at_least(1),
      option("hash", &C::hash)
          .help(
              "Checksum that verifies each file of a checkpoint; sha256 is slower and also detects deliberate changes "
              "(as long as manifest.json is kept safe).")
          .one_of({"xxh3", "sha256"})
          .when("checkpoint.sign is empty: signatures need sha256", is_unsigned),
      option("sign", &C::sign)
          .help("File of an Ed25519 private key (PEM or OpenSSH's format) that signs checkpoints and the final model. "
                "Only rank 0 reads it. `trainer checkpoint verify --key` verifies the signature.")
          .path(),
      option("trusted_key", &C::trusted_key)
          .help("File of an Ed25519 public key. The run resumes only from checkpoints that this key has signed, of a "
                "run with this output_dir's name.")
          .path(),
      option("resume_from_checkpoint", &C::resume_from_checkpoint)
          .help("auto: the newest checkpoint in output_dir, if there is one; true: the same, but it must exist; false: "
                "start from scratch; or a checkpoint folder.")
          .one_of({"auto", "true", "false"}, "a checkpoint folder")
          .path(),
      option("save_on_signal", &C::save_on_signal)
          .help("Saves a checkpoint before stopping on SIGTERM, SIGUSR1 or Ctrl-C."),
      option("grace_seconds", &C::grace_seconds)
          .help("Seconds that ranks have to save and stop after such a signal. (Kubernetes kills after 30.)")
          .above(0.0));
  return entries;
}

const Entries& evaluation_table() {
  using C = EvaluationConfig;
  auto generates = [](const Config& c) { return c.evaluation.generate; };
  auto stops_early = [](const Config& c) { return c.evaluation.early_stopping_patience > 0; };
  static const Entries entries = table<C>(
      option("eval_steps", &C::eval_steps)
          .help("Updates between evaluations. 0: at the end of each epoch.")
          .at_least(0)
          .when("there are validation samples", validates),
      option("metrics", &C::metrics)
          .help(
              "Metrics to compute. All but loss, perplexity and rewards compare the generated text, or the class, with "
              "the label: precision, recall and F1 as scikit-learn, rouge as rouge-score, bleu as sacrebleu. The "
              "rewards of pairs (dpo) are always measured.")
          .one_of(metric_names())
          .when("there are validation samples", validates),
      option("generate", &C::generate)
          .alias("predict_with_generate")
          .help("Writes predictions for the validation samples, and shows some next to their labels."),
      option("max_new_tokens", &C::max_new_tokens)
          .alias("generation_max_length")
          .help("Maximum tokens of a prediction. 0: data.max_target_length.")
          .at_least(0)
          .when("evaluation.generate is true", generates),
      option("temperature", &C::temperature)
          .help("Sampling temperature of predictions. 0: always the most likely token.")
          .at_least(0.0)
          .when("evaluation.generate is true", generates),
      option("top_k", &C::top_k)
          .help("Samples from the k most likely tokens. 0: all.")
          .at_least(0)
          .when("evaluation.generate is true", generates),
      option("top_p", &C::top_p)
          .help("Samples from the fewest tokens whose probabilities add up to this.")
          .above(0.0)
          .at_most(1.0)
          .when("evaluation.generate is true", generates),
      option("num_beams", &C::num_beams)
          .alias("generation_num_beams")
          .help("Beam search for predictions: follows this many texts, and predicts the likeliest. 1: no search.")
          .at_least(1)
          .at_most(1000)
          .when("evaluation.generate is true", generates),
      option("length_penalty", &C::length_penalty)
          .help("Of beam search: above 0 favors long texts, below 0 short ones.")
          .when("evaluation.num_beams is above 1", [](const Config& c) { return c.evaluation.num_beams > 1; }),
      option("show_predictions", &C::show_predictions)
          .help("Predictions shown at the end.")
          .at_least(0)
          .when("evaluation.generate is true", generates),
      option("eval_on_start", &C::eval_on_start)
          .help("Also evaluates before the first update.")
          .when("there are validation samples", validates),
      option("eval_delay", &C::eval_delay)
          .help("Updates, or epochs if eval_steps is 0, before the first scheduled evaluation.")
          .at_least(0.0)
          .when("there are validation samples", validates),
      option("early_stopping_patience", &C::early_stopping_patience)
          .help("Ends the run after this many evaluations in a row that were no better than the best one, by "
                "checkpoint.metric_for_best_model (loss if that is none). 0: never.")
          .at_least(0)
          .when("there are validation samples", validates),
      option("early_stopping_threshold", &C::early_stopping_threshold)
          .help("How much better than the best one an evaluation must be to count as better.")
          .at_least(0.0)
          .when("evaluation.early_stopping_patience is above 0", stops_early));
  return entries;
}

const Entries& logging_table() {
  using C = LoggingConfig;
  auto has_page = [](const Config& c) { return c.logging.metrics_port > 0; };
  auto reports_to_tensorboard = [](const Config& c) {
    const auto& targets = c.logging.report_to;
    return std::find(targets.begin(), targets.end(), "tensorboard") != targets.end();
  };
  static const Entries entries = table<C>(
      option("logging_steps", &C::logging_steps)
          .help("Updates between lines of metrics.jsonl.")
          .ask("How many updates between lines of metrics?")
          .at_least(1),
      option("report_to", &C::report_to)
          .help("Where metrics go in addition to metrics.jsonl: tensorboard: event files; mlflow: the server in "
                "MLFLOW_TRACKING_URI; all: both, if it is set (docs/monitoring.md). Other trackers of transformers and "
                "Accelerate have no effect.")
          .one_of(report_to_names()),
      option("histogram_steps", &C::histogram_steps)
          .help("Updates between histograms of the gradients, before clipping, and of the weights of every trained "
                "parameter, for TensorBoard. They take time and space: a pass over all of them, and up to 25 KB each. "
                "0: none.")
          .at_least(0)
          .when("logging.report_to includes tensorboard", reports_to_tensorboard),
      option("metrics_port", &C::metrics_port)
          .flag("--metrics_port")
          .help("Port on which each machine's launcher serves /metrics for Prometheus, /healthz and /readyz "
                "over HTTP (docs/monitoring.md). 0: none.")
          .at_least(0)
          .at_most(65535),
      option("metrics_address", &C::metrics_address)
          .flag("--metrics_address")
          .help("Address on which it listens: 127.0.0.1 admits only programs on the same machine, 0.0.0.0 "
                "everyone who can reach it.")
          .when("logging.metrics_port is above 0", has_page));
  return entries;
}

}  // namespace trainer::config
