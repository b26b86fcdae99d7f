// Rules about the model and the data.
#include "engine/config/rules/groups.h"

#include "engine/base/listed.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

void model(const Config& config, Judge& judge) {
  const bool path = !config.model.path.empty();
  const bool built = !config.model.config.empty();
  if (!path && !built) {
    judge.refuse("model", "model.path (a Hugging Face folder) or model.config (built from scratch) is required");
  } else if (path && built) {
    judge.refuse("model.config", "model.path and model.config exclude each other: set only one of them");
  }
}

void tokenizer(const Config& config, Judge& judge) {
  if (config.data.task == Task::kImageClassification || config.data.train.path.empty()) return;
  if (config.model.config.empty() || !config.model.path.empty() || !config.tokenizer.path.empty()) return;
  judge.refuse("tokenizer.path",
               "tokenizer.path is required with model.config; `trainer tokenize train` trains one on text");
}

void data(const Config& config, Judge& judge) {
  if (config.data.train.path.empty()) judge.refuse_run("data.train.path", "data.train.path is required");
  if (config.data.train.delimiter.empty())
    judge.refuse("data.train.delimiter", "data.train.delimiter must not be empty");
  const DataSource& train = config.data.train;
  const size_t columns = train.format == DataFormat::kDelimited ? 2 : train.format == DataFormat::kText ? 1 : 0;
  if (columns > 0 && !train.columns.empty() && train.columns.size() != columns)
    judge.refuse("data.train.columns", "data.train.columns names {}; a {} file has {}",
                 counted(train.columns.size(), "column", "columns"), name_of(train.format), columns);
  if (config.data.megatron.reset_position_ids && !config.data.megatron.reset_attention_mask) {
    judge.refuse("data.megatron.reset_position_ids",
                 "data.megatron.reset_position_ids needs data.megatron.reset_attention_mask: true: tokens of two "
                 "documents with equal positions would attend to each other");
  }
}

/// The task must match the data format.
void task(const Config& config, Judge& judge) {
  const DataConfig& d = config.data;
  const bool causal = d.task == Task::kCausalLm, images = d.task == Task::kImageClassification;
  const auto refuse_task = [&](const std::string& option, const std::string& value, const char* wanted) {
    judge.refuse(option, "{} is {}, which needs data.task: {}; it is {}", option, value, wanted, name_of(d.task));
  };
  if (d.train.format == DataFormat::kMegatron && !causal) refuse_task("data.train.format", "megatron", "causal_lm");
  if ((d.train.format == DataFormat::kMnist) != images)
    judge.refuse("data.task",
                 "data.task is {}, but data.train.format is {}: image_classification and mnist require each other",
                 name_of(d.task), name_of(d.train.format));
  if (d.dialogue != Dialogue::kNone && !causal) refuse_task("data.dialogue", name_of(d.dialogue), "causal_lm");
  if (d.dialogue != Dialogue::kNone && d.group_texts)
    judge.refuse("data.group_texts", "data.group_texts is for plain texts; data.dialogue is {}", name_of(d.dialogue));
  if (d.target.empty() && !causal && !images)
    judge.refuse("data.target", "data.target is empty: {} needs a column to predict", name_of(d.task));
  if (d.target.empty() && d.dialogue == Dialogue::kPrompt)
    judge.refuse("data.target", "data.target is empty: data.dialogue: prompt needs a column with the replies");
}

void weights(const Config& config, Judge& judge) {
  const DataSource& train = config.data.train;
  if (train.weights.empty()) return;
  if (train.weights.size() != train.path.size())
    judge.refuse("data.train.weights", "data.train.weights has {} numbers, but data.train.path has {} entries",
                 train.weights.size(), train.path.size());
  for (const double weight : train.weights)
    if (!(weight > 0)) judge.refuse("data.train.weights", "data.train.weights must be above 0; one is {}", weight);
}

void validation(const Config& config, Judge& judge) {
  if (config.data.validation.fraction > 0 && !config.data.validation.path.empty()) {
    judge.refuse("data.validation.fraction",
                 "data.validation.fraction and data.validation.path exclude each other: set only one of them");
  }
}

}  // namespace

std::vector<Rule> rules_of_inputs() {
  return {
      {"model-given", "A model is loaded from a folder or built from a configuration.", model},
      {"tokenizer-given", "A model built from scratch has no tokenizer.", tokenizer},
      {"data-given", "Training needs samples.", data},
      {"task-fits-data", "The task must match the data format.", task},
      {"weights-fit-paths", "A mixture has one weight per source.", weights},
      {"one-validation", "Validation samples are a fraction of the training samples or have separate files.",
       validation},
  };
}

}  // namespace trainer::config
