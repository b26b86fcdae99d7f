// Questions about the samples: files, format, columns and targets.
#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/config/document/json_text.h"
#include "engine/config/names.h"
#include "engine/config/wizard/asker.h"
#include "engine/config/wizard/columns.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

const std::string kNoTarget = "none";

bool needs_target(Task task) {
  return task == Task::kSeq2SeqLm || task == Task::kSequenceClassification;
}

/// "" or why samples of this kind don't match the task.
std::string unfit_data(const DataDescription& data, Task task) {
  const bool images = task == Task::kImageClassification;
  if (images && data.format != "mnist")
    return "This is not an image file in MNIST's format, which image_classification needs. Enter one, or type < to go "
           "back and choose another task.";
  if (!images && data.format == "mnist")
    return "These are images. Enter a text file, or type < to go back and choose image_classification.";
  if (task != Task::kCausalLm && data.format == "megatron")
    return fmt::format("These are tokens for causal_lm; {} needs texts. Enter another file, or type < to go back.",
                       name_of(task));
  if (needs_target(task) && data.columns.size() == 1 && data.names.empty() && data.format != "text")
    return fmt::format("There is only one column: {}. {} needs a second one to predict. Enter another file.",
                       data.columns[0], name_of(task));
  return "";
}

/// Removes older answers about another file.
void forget_source(WizardDraft& draft) {
  for (const char* const option :
       {"data.train.format", "data.train.delimiter", "data.train.columns", "data.train.encoding", "data.source",
        "data.target", "data.dialogue", "data.messages"})
    draft.erase(option);
}

/// "" or why the files can't be used.
std::string unfit_files(Asker& ask) {
  const auto data = ask.data();
  if (!data) return "";
  return data->error.empty() ? unfit_data(*data, ask.config().data.task) : data->error;
}

std::string missing_files(Asker& ask) {
  for (const std::string& path : ask.config().data.train.path) {
    const std::string file = ask.opened(path);
    std::error_code ignored;
    if (path.find_first_of("*?[") != std::string::npos || fs::exists(file, ignored)) continue;
    if (fs::exists(file + ".bin", ignored)) continue;  // Megatron's, without their extension
    return fmt::format("{} does not exist.\nType it again to keep it for another machine.", file);
  }
  return "";
}

void ask_files(Asker& ask) {
  const std::vector<std::string> older = ask.config().data.train.path;
  const auto fits = [&]() -> std::string {
    if (!older.empty() && ask.config().data.train.path != older) forget_source(ask.draft());
    return missing_files(ask).empty() ? unfit_files(ask) : "";
  };
  ask.option("data.train.path", {.needed = "Samples are required: enter a file, a folder or a glob.",
                                 .fits = fits,
                                 .doubt = [&] { return missing_files(ask); }});
  if (!ask.config().data.train.path.empty() && !missing_files(ask).empty()) ask.say("  They are not on this machine.");
  const auto data = ask.data();
  if (!data || !data->error.empty()) return;
  if (data->encoding != ask.config().data.train.encoding)
    ask.draft().assign("data.train.encoding", Node::scalar(data->encoding));
  ask.say("  Format: " + data->text() + ".");
}

/// "" or what is wrong with the files under the options so far.
std::string unreadable(Asker& ask) {
  const auto data = ask.data();
  if (!data || !missing_files(ask).empty()) return "";
  if (!data->error.empty()) return data->error;
  if (ask.config().data.train.format == DataFormat::kAuto && !data->by_ending)
    return fmt::format("auto needs a known file extension; these files look like {}.", data->format);
  const Task task = ask.config().data.task;
  if (needs_target(task) && data->format == "text")
    return fmt::format("Plain lines have one column; {} needs a second one to predict. Choose another format.",
                       name_of(task));
  return unfit_data(*data, task);
}

void ask_format(Asker& ask) {
  const Task task = ask.config().data.task;
  if (task == Task::kImageClassification) return ask.draft().assign("data.train.format", encode(DataFormat::kMnist));
  std::vector<std::string> choices{"auto", "delimited", "csv", "tsv", "json", "jsonl"};
  if (task == Task::kCausalLm) choices.insert(choices.end(), {"text", "megatron"});
  const auto data = ask.data();
  std::string usual = "auto";
  if (data && data->error.empty() && !data->by_ending) usual = data->format;
  if (usual == "auto" && data && data->format == "text" && needs_target(task)) usual = "delimited";
  // The delimiter is the next question.
  const auto fits = [&] {
    return ask.config().data.train.format == DataFormat::kDelimited ? std::string() : unreadable(ask);
  };
  ask.option("data.train.format", {.fallback = usual, .choices = choices, .fits = fits});
  if (ask.config().data.train.format == DataFormat::kDelimited)
    ask.option("data.train.delimiter",
               {.fallback = data ? data->delimiter : "", .fits = [&] { return unreadable(ask); }});
}

/// The format of the samples, by its name in configuration files; "" if unknown.
std::string format_of(Asker& ask) {
  const auto data = ask.data();
  if (data && data->error.empty()) return data->format;
  const DataFormat format = ask.config().data.train.format;
  return format == DataFormat::kAuto ? "" : name_of(format);
}

void ask_columns(Asker& ask) {
  const std::string format = format_of(ask);
  if (format != "" && format != "csv" && format != "tsv" && format != "delimited") return;
  const auto data = ask.data();
  std::string usual;
  if (data && data->error.empty()) usual = fmt::format("{}", fmt::join(data->names, ","));
  if (usual.empty() && format == "delimited") {
    const ColumnRoles roles = guess_roles({}, ask.config().data.task);
    usual = roles.source + "," + (roles.target.empty() ? "target" : roles.target);
  }
  ask.option("data.train.columns", {.fallback = usual, .fits = [&] { return unreadable(ask); }});
}

/// The known columns; empty if unknown.
std::vector<std::string> known_columns(Asker& ask) {
  const auto data = ask.data();
  return data && data->error.empty() ? data->columns : ask.config().data.train.columns;
}

/// "" or why `text` can't be a column or a template of columns.
std::string unknown_column(Asker& ask, const std::string& text) {
  const std::vector<std::string> columns = known_columns(ask);
  if (columns.empty()) return "";
  for (const std::string& column : columns_in(text))
    if (std::count(columns.begin(), columns.end(), column) == 0)
      return fmt::format("There is no column '{}'{}; the {}: {}.", column, did_you_mean(column, columns),
                         columns.size() == 1 ? "only column is" : "columns are", fmt::join(columns, ", "));
  return "";
}

/// "" or which class of the samples the model's existing classes don't include.
std::string unknown_class(Asker& ask) {
  const auto model = ask.model();
  const auto data = ask.data();
  if (!model || model->labels.empty() || ask.config().model.path.empty() || !data) return "";
  for (const std::string& label : data->labels)
    if (std::count(model->labels.begin(), model->labels.end(), label) == 0)
      return fmt::format(
          "The model's classes are {}; '{}' is not one of them. Enter another column, or type < to go back and choose "
          "a model without classes.",
          fmt::join(model->labels, ", "), shown(label));
  return "";
}

/// Only for causal_lm: whether records are dialogues. True if they are.
bool ask_dialogue(Asker& ask, const std::string& format) {
  if (ask.config().data.task != Task::kCausalLm) {
    ask.draft().erase("data.dialogue");
    return false;
  }
  const auto data = ask.data();
  std::vector<std::string> choices{"none", "messages", "sharegpt", "alpaca", "prompt"};
  if (format == "text") choices = {"none", "play"};
  const bool found = data && data->error.empty();
  const auto settle_messages = [&] {
    if (found && !data->messages.empty() && data->dialogue == name_of(ask.config().data.dialogue))
      ask.draft().assign("data.messages", Node::scalar(data->messages));
  };
  const auto fits = [&]() -> std::string {
    settle_messages();
    const auto again = ask.data();
    return again && missing_files(ask).empty() ? again->error : "";
  };
  ask.option("data.dialogue", {.fallback = found ? data->dialogue : "none", .choices = choices, .fits = fits});
  settle_messages();
  return ask.config().data.dialogue != Dialogue::kNone;
}

/// If the tokenizer has none, one of the built-in templates.
void ask_chat_template(Asker& ask) {
  const auto tokenizer = ask.tokenizer();
  const bool known = tokenizer && tokenizer->error.empty();
  if (!ask.draft().has("data.chat_template") && (!known || tokenizer->chat_template)) return;
  std::vector<std::string> choices = known ? tokenizer->templates : std::vector<std::string>{};
  const std::string& given = ask.config().data.chat_template;
  if (!given.empty() && std::count(choices.begin(), choices.end(), given) == 0) choices.push_back(given);
  const Dialogue dialogue = ask.config().data.dialogue;
  const bool plain = dialogue == Dialogue::kAlpaca || dialogue == Dialogue::kPrompt;
  ask.option("data.chat_template", {.fallback = plain ? "alpaca" : "chatml", .choices = choices});
}

/// The target can be empty for causal_lm: there an answer can remove it.
void ask_target(Asker& ask, const std::string& usual) {
  WizardDraft& draft = ask.draft();
  const auto known = [&] {
    const std::string why = unknown_column(ask, draft.config.data.target);
    return why.empty() ? unknown_class(ask) : why;
  };
  if (needs_target(draft.config.data.task)) return ask.option("data.target", {.fallback = usual, .fits = known});
  const std::string given = draft.has("data.target") ? draft.config.data.target : usual;
  std::string target = given;
  ask.text("Which column should be predicted? (none: all of the text is learned)", given.empty() ? kNoTarget : given,
           [&](const std::string& answer) {
             target = lower(answer) == kNoTarget ? "" : answer;
             return target.empty() ? "" : unknown_column(ask, target);
           });
  draft.assign("data.target", Node::scalar(target, target.empty()));
}

void ask_roles(Asker& ask) {
  const std::vector<std::string>& named = ask.config().data.train.columns;
  const auto data = ask.data();
  const std::vector<std::string> columns = known_columns(ask);
  ColumnRoles usual = guess_roles(columns, ask.config().data.task);
  if (!(data && data->error.empty()) && named.size() >= 2) usual = {named[0], named[1]};
  ask.option("data.source",
             {.fallback = usual.source, .fits = [&] { return unknown_column(ask, ask.config().data.source); }});
  ask_target(ask, usual.target == ask.config().data.source ? "" : usual.target);
}

/// A model that is built from scratch for images gets their size and number of classes.
void settle_network(Asker& ask) {
  const auto data = ask.data();
  if (!data || data->features == 0 || ask.config().model.config.empty()) return;
  Node model = from_json(ask.config().model.config);
  model["input_size"] = encode(data->features);
  model["num_labels"] = encode(data->classes);
  ask.draft().assign("model.config", model);
}

/// Limits samples to the maximum length of the model.
void settle_length(Asker& ask, const std::string& format) {
  const auto model = ask.model();
  if (!model || model->positions == 0) return;
  const DataConfig& data = ask.config().data;
  const bool megatron = format == "megatron";
  const int64_t length = megatron ? data.megatron.sequence_length : data.max_length;
  if (data.task == Task::kSeq2SeqLm || length <= model->positions) return;
  ask.draft().assign(megatron ? "data.megatron.sequence_length" : "data.max_length", encode(model->positions));
  ask.say(fmt::format("  Samples are limited to {} tokens, the maximum of the model.", model->positions));
}

}  // namespace

void ask_data(Asker& ask) {
  ask_files(ask);
  ask_format(ask);
  if (ask.config().data.task == Task::kImageClassification) {
    settle_network(ask);
  } else if (const std::string format = format_of(ask); format == "megatron") {
    settle_length(ask, format);
  } else {
    ask_columns(ask);
    if (ask_dialogue(ask, format))
      ask_chat_template(ask);
    else
      ask_roles(ask);
    settle_length(ask, format);
  }
  if (ask.config().data.validation.path.empty()) ask.option("data.validation.fraction");
}

}  // namespace trainer::config
