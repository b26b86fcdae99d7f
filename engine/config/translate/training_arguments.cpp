// TrainingArguments pasted as a whole under `training`: moves keys that are our options in other sections.
#include <fmt/ranges.h>

#include "engine/base/metrics.h"
#include "engine/config/tables.h"
#include "engine/config/translate/translate.h"
#include "engine/config/translate/translation.h"

namespace trainer::config {
namespace {

struct SameArgument {
  const char* key;
  const char* to;
};

/// The same option in another place.
constexpr SameArgument kSame[] = {{"seed", "seed"},
                                  {"per_gpu_train_batch_size", "training.per_device_train_batch_size"},
                                  {"per_gpu_eval_batch_size", "training.per_device_eval_batch_size"},
                                  {"generation_max_length", "evaluation.max_new_tokens"},
                                  {"generation_num_beams", "evaluation.num_beams"},
                                  {"save_total_limit", "checkpoint.save_total_limit"}};

/// Booleans that set something if they are true; false is the default of TrainingArguments.
struct Switch {
  const char* key;
  const char* to;
  const char* value;
};
constexpr Switch kSwitches[] = {{"use_cpu", "use_cpu", "true"},
                                {"no_cuda", "use_cpu", "true"},
                                {"bf16", "mixed_precision", "bf16"},
                                {"fp16", "mixed_precision", "fp16"},
                                {"predict_with_generate", "evaluation.generate", "true"},
                                {"full_determinism", "deterministic", "true"},
                                {"enable_jit_checkpoint", "checkpoint.save_on_signal", "true"}};

class Arguments {
 public:
  explicit Arguments(Draft& draft) : draft_(draft), translation_(draft) {}

  void translate() {
    for (const auto& [key, to] : kSame) move(given(key), to);
    for (const auto& [key, to, value] : kSwitches) {
      if (parse_bool(given(key).value.text) == true) translation_.set(given(key), to, Node::scalar(value));
    }
    move_path("output_dir", "output_dir");
    move_path("resume_from_checkpoint", "checkpoint.resume_from_checkpoint");
    seeds();
    warmup();
    sampling();
    logging();  // before evaluation, which uses logging_steps by default
    evaluation();
    checkpoints();
    hide("hub_token");
    hide("push_to_hub_token");
  }

 private:
  GivenKey given(const std::string& name) const { return translation_.foreign("training." + name); }
  std::string word(const GivenKey& key) const { return lower(key.value.text); }

  void move(const GivenKey& key, const std::string& to) {
    if (!key.value.is_null()) translation_.set(key, to, key.value);
  }

  void move_path(const std::string& name, const std::string& to) {
    GivenKey key = given(name);
    const bool is_path = key.value.is_scalar() && !parse_bool(key.value.text) && word(key) != "auto";
    if (is_path) key.value.text = absolute_path(key.value.text, folder_of(key.mark));
    move(key, to);
  }

  /// A number of updates; transformers also accepts a fraction of all updates.
  void move_steps(const std::string& name, const std::string& to) {
    const GivenKey key = given(name);
    double number = 0;
    if (decode(key.value, number).empty() && number > 0 && number < 1) {
      translation_.refuse(key, "fractions of all updates are not supported; set a number of updates");
    } else {
      move(key, to);
    }
  }

  void seeds() {
    const GivenKey key = given("data_seed");
    if (key.value.is_null() || same(key.value, translation_.option("seed").value)) return;
    translation_.no_effect(key, "the sample order follows from seed");
  }

  void warmup() {
    const GivenKey ratio = given("warmup_ratio");
    double part = 0;
    if (!decode(ratio.value, part).empty() || part == 0) return;
    if (part < 0 || part >= 1) {
      translation_.refuse(ratio, "it is a fraction of all updates, below 1; warmup_steps is a number of updates");
      return;
    }
    const std::string steps = "training.warmup_steps";
    const Mark mark = draft_.mark(steps);
    if (layer_of(mark) == layer_of(ratio.mark)) {  // like transformers, uses the ratio only if the steps are 0
      if (draft_.config.training.warmup_steps > 0) {
        translation_.no_effect(ratio, "warmup_steps, which is also set, takes precedence");
        return;
      }
      draft_.origins.erase(steps);
    }
    translation_.set(ratio, steps, ratio.value);
  }

  void sampling() {
    const GivenKey key = given("train_sampling_strategy");
    if (word(key) == "sequential") translation_.set(key, "data.shuffle", encode(false));
    if (word(key) == "group_by_length") translation_.set(key, "training.group_by_length", encode(true));
    if (word(key) == "batch_rebalance")
      translation_.no_effect(key, "each update's samples are always divided evenly, by their tokens");
  }

  void logging() {
    const GivenKey strategy = given("logging_strategy");
    if (word(strategy) == "no" || word(strategy) == "epoch")
      translation_.no_effect(strategy, "metrics.jsonl gets a line every logging_steps updates");
    move_steps("logging_steps", "logging.logging_steps");
    move(given("report_to"), "logging.report_to");
  }

  void evaluation() {
    for (const char* const same :
         {"eval_on_start", "eval_delay", "early_stopping_patience", "early_stopping_threshold"})
      move(given(same), fmt::format("evaluation.{}", same));
    const std::string to = "evaluation.eval_steps";
    const GivenKey older = given("evaluation_strategy");
    const GivenKey strategy = given("eval_strategy").value.is_null() ? older : given("eval_strategy");
    const GivenKey steps = given("eval_steps");
    if (word(strategy) == "no" || word(strategy) == "epoch") {
      if (!steps.value.is_null()) translation_.no_effect(steps, fmt::format("{} is {}", strategy.key, word(strategy)));
      if (word(strategy) == "epoch") translation_.set(strategy, to, Node::scalar("0"));
      if (word(strategy) == "no" && validates(draft_.config))
        translation_.no_effect(strategy,
                               "samples in data.validation are evaluated at the end of each epoch; without "
                               "them there is no evaluation");
    } else if (word(strategy) == "steps" && steps.value.is_null()) {
      translation_.set(strategy, to, translation_.option("logging.logging_steps").value);
    } else {
      move_steps("eval_steps", to);
    }
  }

  void checkpoints() {
    const GivenKey strategy = given("save_strategy"), steps = given("save_steps");
    move(strategy, "checkpoint.save_strategy");
    if (strategy.value.is_null() || word(strategy) == "steps")
      move_steps("save_steps", "checkpoint.save_steps");
    else if (!steps.value.is_null())
      translation_.no_effect(steps, fmt::format("{} is {}", strategy.key, word(strategy)));
    const GivenKey best = given("metric_for_best_model"), loads = given("load_best_model_at_end");
    move(loads, "checkpoint.load_best_model_at_end");
    const std::string measured = word(best).starts_with("eval_") ? word(best).substr(5) : word(best);
    if (find_metric(measured) != nullptr)
      choose_best_by(best, measured);
    else if (!best.value.is_null())
      translation_.refuse(best, fmt::format("the metrics are {}", fmt::join(metric_names(), ", ")));
    if (parse_bool(loads.value.text).value_or(false) && draft_.config.checkpoint.metric_for_best_model == "none")
      translation_.set(loads, "checkpoint.metric_for_best_model", Node::scalar("loss"));
  }

  /// transformers measures what the program computes; here the metric must be one of evaluation.metrics.
  void choose_best_by(const GivenKey& key, const std::string& metric) {
    translation_.set(key, "checkpoint.metric_for_best_model", Node::scalar(metric));
    if (metric != "loss" && !draft_.is_set("evaluation.metrics"))
      translation_.set(key, "evaluation.metrics", Node::list({"loss", metric}));
  }

  /// Secrets are not shown on the screen.
  void hide(const std::string& name) {
    auto secret = draft_.foreign.find("training." + name);
    if (secret != draft_.foreign.end() && !secret->second.is_null()) secret->second.text = "(hidden)";
  }

  Draft& draft_;
  Translation translation_;
};

}  // namespace

void translate_training_arguments(Draft& draft) {
  Arguments(draft).translate();
}

}  // namespace trainer::config
