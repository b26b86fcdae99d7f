// Questions about the samples: files, format, columns and targets.
#include <algorithm>
#include <filesystem>
#include <tuple>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/base/indented.h"
#include "engine/config/document/json_text.h"
#include "engine/config/names.h"
#include "engine/config/wizard/asker.h"
#include "engine/config/wizard/columns.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

bool needs_target(Goal goal) {
  return goal == Goal::kAnswer || goal == Goal::kClassify;
}

bool is_turns(const DataDescription& data) {
  return data.dialogue == "messages" || data.dialogue == "sharegpt";
}

/// "" or why samples of this kind don't match the goal.
std::string unfit_data(const DataDescription& data, Goal goal) {
  const bool images = goal == Goal::kImages;
  if (images && data.format != "mnist")
    return "This is not an image file in MNIST's format, which `images` needs. Enter one, or type < to go back and "
           "choose something else to do.";
  if (!images && data.format == "mnist")
    return "These are images. Enter a text file, or type < to go back and choose `images`.";
  if (goal != Goal::kContinue && data.format == "megatron")
    return fmt::format("These are tokens, for `continue`; `{}` needs texts. Enter another file, or type < to go back.",
                       name_of(goal));
  if (goal == Goal::kPreferences && (data.format == "text" || data.format == "delimited"))
    return "`preferences` needs records with two replies, in jsonl, json, csv or parquet. Enter another file.";
  if (goal == Goal::kContinue && is_turns(data))
    return "These records are dialogues. Enter another file, or type < to go back and choose `dialogue`.";
  if (needs_target(goal) && data.columns.size() == 1 && data.names.empty() && data.format != "text" &&
      data.dialogue == "none")
    return fmt::format("There is only one column: {}. `{}` needs a second one to predict. Enter another file.",
                       data.columns[0], name_of(goal));
  return "";
}

/// Removes older answers about another file.
void forget_source(WizardDraft& draft) {
  for (const char* const option : {"data.train.format", "data.train.delimiter", "data.train.sample_by",
                                   "data.train.columns", "data.train.encoding", "data.source", "data.target",
                                   "data.rejected", "data.dialogue", "data.messages", "data.character", "data.learn"})
    draft.erase(option);
}

/// "" or why the files can't be used.
std::string unfit_files(Asker& ask, Goal goal) {
  const auto data = ask.data();
  if (!data) return "";
  if (!data->error.empty()) return data->error;
  if (goal != Goal::kDialogue || data->format != "text") return unfit_data(*data, goal);
  ask.draft().assign("data.dialogue", encode(Dialogue::kPlay));  // the only dialogue of plain text
  const auto play = ask.data();
  return play && !play->error.empty() ? play->error + "\nEnter another file: a play, or records with turns." : "";
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

void ask_files(Asker& ask, Goal goal) {
  const std::vector<std::string> older = ask.config().data.train.path;
  const auto fits = [&]() -> std::string {
    if (!older.empty() && ask.config().data.train.path != older) forget_source(ask.draft());
    return missing_files(ask).empty() ? unfit_files(ask, goal) : "";
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
std::string unreadable(Asker& ask, Goal goal) {
  const auto data = ask.data();
  if (!data || !missing_files(ask).empty()) return "";
  if (!data->error.empty()) return data->error;
  if (ask.config().data.train.format == DataFormat::kAuto && !data->by_ending)
    return fmt::format("auto needs a known file extension; these files look like {}.", data->format);
  if (needs_target(goal) && data->format == "text")
    return fmt::format("Plain lines have one column; `{}` needs a second one to predict. Choose another format.",
                       name_of(goal));
  return unfit_data(*data, goal);
}

/// The file extension or the content decides, unless the file already says something else. Lines that a delimiter may
/// divide are asked for.
void ask_format(Asker& ask, Goal goal) {
  if (goal == Goal::kImages) return ask.draft().assign("data.train.format", encode(DataFormat::kMnist));
  const auto data = ask.data();
  const bool found = data && data->error.empty();
  const bool divides = found && (data->format == "delimited" || (data->format == "text" && needs_target(goal)));
  if (found && !divides && !ask.draft().has("data.train.format"))
    return ask.draft().assign("data.train.format", Node::scalar(data->by_ending ? "auto" : data->format));
  std::vector<std::string> choices{"auto", "delimited", "csv", "tsv", "json", "jsonl"};
  if (!needs_target(goal)) choices.insert(choices.end(), {"text", "megatron"});
  std::string usual = "auto";
  if (found && !data->by_ending) usual = data->format;
  if (usual == "auto" && divides) usual = "delimited";
  // The delimiter is the next question.
  const auto fits = [&] {
    return ask.config().data.train.format == DataFormat::kDelimited ? std::string() : unreadable(ask, goal);
  };
  ask.option("data.train.format", {.fallback = usual, .choices = choices, .fits = fits});
  if (ask.config().data.train.format == DataFormat::kDelimited)
    ask.option("data.train.delimiter",
               {.fallback = data ? data->delimiter : "", .fits = [&] { return unreadable(ask, goal); }});
}

/// The format of the samples, by its name in configuration files; "" if unknown.
std::string format_of(Asker& ask) {
  const auto data = ask.data();
  if (data && data->error.empty()) return data->format;
  const DataFormat format = ask.config().data.train.format;
  return format == DataFormat::kAuto ? "" : name_of(format);
}

/// A file's own names are not asked for.
void ask_columns(Asker& ask, Goal goal) {
  const std::string format = format_of(ask);
  if (format != "" && format != "csv" && format != "tsv" && format != "delimited") return;
  const auto data = ask.data();
  const bool found = data && data->error.empty();
  if (found && format != "delimited" && data->names.empty() && !ask.draft().has("data.train.columns")) return;
  std::string usual;
  if (found) usual = fmt::format("{}", fmt::join(data->names, ","));
  if (usual.empty() && format == "delimited") {
    const ColumnRoles roles = guess_roles({}, ask.config().data.task);
    usual = roles.source + "," + (roles.target.empty() ? "target" : roles.target);
  }
  const char* const text = format == "delimited" ? "What are the names of the columns?" : "";  // it has none of its own
  ask.option("data.train.columns", {.text = text, .fallback = usual, .fits = [&] { return unreadable(ask, goal); }});
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

/// "" or why no samples can be made of the first records.
std::string bad_samples(Asker& ask) {
  const auto samples = ask.samples();
  return samples && missing_files(ask).empty() ? samples->error : "";
}

/// How records are dialogues: as recognized, else as the user says. False if the samples are not dialogues.
bool ask_dialogue(Asker& ask, Goal goal) {
  const auto data = ask.data();
  const bool found = data && data->error.empty();
  const bool known = found && data->dialogue != "none";
  const bool causal = ask.config().data.task == Task::kCausalLm;
  // Records of inputs and outputs become questions and answers in a chat template, unless the file names columns.
  const bool pairs = goal == Goal::kAnswer && known && !ask.draft().has("data.source");
  if (!causal || (goal != Goal::kDialogue && !pairs)) {
    ask.draft().erase("data.dialogue");
    return false;
  }
  if (ask.config().data.dialogue == Dialogue::kPlay) {
    ask.say("  Dialogues: a play, whose speeches are the turns.");
    return true;
  }
  const auto settle_messages = [&] {
    if (found && !data->messages.empty() && data->dialogue == name_of(ask.config().data.dialogue))
      ask.draft().assign("data.messages", Node::scalar(data->messages));
  };
  if (known && !ask.draft().has("data.dialogue")) {
    ask.draft().assign("data.dialogue", Node::scalar(data->dialogue));
    settle_messages();
    ask.say("  Dialogues: " + data->dialogue + (data->messages.empty() ? "" : ", in the column " + data->messages) +
            ".");
    return true;
  }
  const auto fits = [&]() -> std::string {
    settle_messages();
    const auto again = ask.data();
    return again && missing_files(ask).empty() ? again->error : "";
  };
  ask.option("data.dialogue", {.fallback = known ? data->dialogue : "messages",
                               .choices = {"messages", "sharegpt", "alpaca", "prompt"},
                               .fits = fits});
  settle_messages();
  return true;
}

/// The column with the prompts of pairs that are texts; "": the replies begin with theirs.
std::string prompt_column(const std::vector<std::string>& columns) {
  for (const char* const name : {"prompt", "question", "instruction", "input", "query"})
    if (std::count(columns.begin(), columns.end(), name) != 0) return name;
  return "";
}

/// The columns of pairs. Returns whether they are dialogues.
bool ask_replies(Asker& ask) {
  const std::vector<std::string> columns = known_columns(ask);
  const std::tuple<const char*, const char*, const char*> replies[] = {
      {"data.target", kChosenColumn, "Which column is the better reply?"},
      {"data.rejected", kRejectedColumn, "Which column is the worse reply?"}};
  for (const auto& [option, usual, text] : replies) {
    const bool there = std::count(columns.begin(), columns.end(), usual) != 0;
    const auto known = [&, option = option] {
      return unknown_column(
          ask, option == std::string("data.target") ? ask.config().data.target : ask.config().data.rejected);
    };
    if (there && !ask.draft().has(option))
      ask.draft().assign(option, Node::scalar(usual));
    else
      ask.option(option, {.text = text, .fallback = usual, .fits = known});
  }
  const auto data = ask.data();
  const bool found = data && data->error.empty();
  const std::string prompt = prompt_column(columns);
  if (!ask.draft().has("data.dialogue") && found && data->dialogue != "none") {
    ask.draft().assign("data.dialogue", Node::scalar(data->dialogue));
    ask.say("  Dialogues: " + data->dialogue + ".");
    return true;
  }
  if (!ask.draft().has("data.source"))
    ask.draft().assign("data.source", Node::scalar(prompt.empty() ? kPromptColumn : prompt));
  ask.option("data.dialogue", {.text = "Are these texts for a chat template (prompt), or as they are (none)?",
                               .fallback = found && prompt.empty() ? "none" : "prompt",
                               .choices = {"prompt", "none", "messages", "sharegpt", "alpaca"}});
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
  ask.option("data.chat_template",
             {.fallback = plain ? "alpaca" : "chatml", .choices = choices, .fits = [&] { return bad_samples(ask); }});
}

/// A template that renders earlier replies differently, as Qwen3's, can't show all replies of a dialogue at once.
void settle_turns(Asker& ask) {
  if (ask.draft().has("data.learn") || bad_samples(ask).empty()) return;
  ask.draft().assign("data.learn", encode(Learn::kEachTurn));
  if (!bad_samples(ask).empty()) return ask.draft().erase("data.learn");
  ask.say("  The chat template renders earlier replies differently: each reply and the turns before it are a sample.");
}

/// Of a play: whose speeches are the replies. After the chat template, without which no sample can be made.
void ask_character(Asker& ask) {
  if (ask.config().data.dialogue != Dialogue::kPlay) return;
  ask.option("data.character", {.fits = [&] { return bad_samples(ask); }});
}

/// Texts to continue have no target: all of them is learned.
void ask_text(Asker& ask, const std::string& usual) {
  const auto known = [&] { return unknown_column(ask, ask.config().data.source); };
  const std::vector<std::string> columns = known_columns(ask);
  if (columns.size() == 1 && !ask.draft().has("data.source"))
    ask.draft().assign("data.source", Node::scalar(columns[0]));
  else
    ask.option("data.source", {.text = "Which column holds the texts?", .fallback = usual, .fits = known});
  ask.draft().assign("data.target", Node::scalar("", true));
  const auto data = ask.data();
  if (ask.config().data.train.format == DataFormat::kText || (data && data->format == "text"))
    ask.option("data.train.sample_by", {.fits = [&] { return bad_samples(ask); }});
  ask.option("data.group_texts", {.fallback = "yes", .fits = [&] { return bad_samples(ask); }});
}

/// A decoder reads input and output as one text: without anything between them, it couldn't tell where the output
/// starts.
void separate_output(Asker& ask) {
  const std::string source = ask.config().data.source;
  const bool is_template = source.find_first_of("{}") != std::string::npos;
  if (ask.config().data.task != Task::kCausalLm || is_template) return;
  ask.draft().assign("data.source", Node::scalar("{" + source + "}\n", true));
  ask.say("  A line break will separate the input from the output.");
}

void ask_pairs(Asker& ask) {
  const std::vector<std::string>& named = ask.config().data.train.columns;
  const auto data = ask.data();
  const Task task = ask.config().data.task == Task::kCausalLm ? Task::kSeq2SeqLm : ask.config().data.task;
  ColumnRoles usual = guess_roles(known_columns(ask), task);
  if (!(data && data->error.empty()) && named.size() >= 2) usual = {named[0], named[1]};
  ask.option("data.source",
             {.fallback = usual.source, .fits = [&] { return unknown_column(ask, ask.config().data.source); }});
  const std::string source = ask.config().data.source;
  separate_output(ask);
  const auto known = [&] {
    std::string why = unknown_column(ask, ask.config().data.target);
    if (why.empty()) why = unknown_class(ask);
    return why.empty() ? bad_samples(ask) : why;
  };
  ask.option("data.target", {.fallback = usual.target == source ? "" : usual.target, .fits = known});
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

/// The first samples as the model will read them, so that a mistake above shows before the next question.
void show_samples(Asker& ask) {
  const auto samples = ask.samples();
  if (!samples || samples->texts.empty() || !missing_files(ask).empty()) return;
  const bool images = ask.config().data.task == Task::kImageClassification;
  ask.say(images ? "  The first samples:" : "  The first samples, as the model reads them; it learns what is in ⟦ ⟧:");
  for (const std::string& text : samples->texts) ask.say(indented(text));
}

void ask_validation(Asker& ask, const std::string& format) {
  if (!ask.config().data.validation.path.empty() || format == "megatron") return;
  ask.option("data.validation.fraction", {.fallback = "0.1"});
  const bool classes =
      ask.config().data.task == Task::kSequenceClassification || ask.config().data.task == Task::kImageClassification;
  if (classes && ask.config().data.validation.fraction > 0 && !ask.draft().has("evaluation.metrics"))
    ask.draft().assign("evaluation.metrics", Node::list({"loss", "accuracy"}));
}

}  // namespace

void ask_data(Asker& ask, Goal goal) {
  if (goal != Goal::kContinue) ask.draft().erase("data.group_texts");  // of an earlier answer
  ask_files(ask, goal);
  ask_format(ask, goal);
  const std::string format = format_of(ask);
  if (goal == Goal::kImages) {
    settle_network(ask);
  } else if (format == "megatron") {
    settle_length(ask, format);
  } else {
    ask_columns(ask, goal);
    settle_length(ask, format);
    if (goal == Goal::kPreferences ? ask_replies(ask) : ask_dialogue(ask, goal)) {
      ask_chat_template(ask);
      ask_character(ask);
      if (goal != Goal::kPreferences) settle_turns(ask);
    } else if (goal == Goal::kPreferences) {
      ask.draft().erase("data.chat_template");
    } else if (goal == Goal::kContinue) {
      ask_text(ask, guess_roles(known_columns(ask), Task::kCausalLm).source);
    } else {
      ask_pairs(ask);
    }
  }
  show_samples(ask);
  ask_validation(ask, format);
}

}  // namespace trainer::config
