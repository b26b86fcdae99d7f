// axolotl's `datasets`: a list of files and Hub names, each with a `type`.
#include <algorithm>

#include "engine/config/convert/source.h"

namespace trainer::config::axolotl {
namespace {

const Entries& dataset_table() {
  const char* const roles = "data.learn selects the turns that are learned: assistant, all or last_turn";
  const char* const files = "data.train.path stands for the training split; give the files of another one";
  const char* const names = "roles are user, assistant and system, or sharegpt's human, gpt and system";
  const char* const types = "data.train.format is recognized by the files' names";
  static const Entries entries = foreign_table(
      translated("path", "data.train.path"), translated("data_files", "data.train.path, instead of `path`"),
      translated("type", "alpaca, chat_template, sharegpt or completion"),
      translated("field", "data.source of completion"), translated("field_messages", "data.messages"),
      translated("message_property_mappings", "role and content, or from and value"),
      translated("message_field_role", "role or from"), translated("message_field_content", "content or value"),
      translated("chat_template", "as at the top"), translated("text_column", "data.source"),
      no_effect("split", files).harmless({"train"}),
      no_effect("name", "give the files of this configuration in data.train.path"), no_effect("train_on_split", files),
      no_effect("revision", "the newest snapshot in the Hub's cache is read"),
      no_effect("ds_type", types).harmless({"json", "csv", "parquet", "arrow", "text"}), no_effect("roles", names),
      no_effect("roles_to_train", roles), no_effect("train_on_eos", roles).harmless({"turn"}),
      no_effect("train_on_last_step_only", roles), no_effect("message_field_training", roles),
      no_effect("drop_system_message", "system messages are kept"), no_effect("field_thinking", "turns have one text"),
      no_effect("template_thinking_key", "turns have one text"),
      no_effect("shards", "data.max_samples limits the samples"),
      no_effect("conversation", "data.chat_template names the template"));
  return entries;
}

/// How records are read: the same for all files of a run.
struct Reading {
  std::string dialogue = "none", messages, source, chat_template;
  bool operator==(const Reading&) const = default;
};

class Datasets {
 public:
  explicit Datasets(Source& source) : source_(source) {}

  void convert(const std::string& list, const std::string& to) {
    const GivenKey given = source_.key(list);
    if (!given.value.is_list()) {
      if (!given.value.is_null())
        source_.draft().problems.add(given.mark, list,
                                     fmt::format("{} must be a list; is {}", list, described(given.value)));
      return;
    }
    Node paths = Node::list({});
    std::size_t index = 0;
    for (const Node& item : given.value.items) one(fmt::format("{}[{}]", list, index++), item, list, paths);
    if (paths.items.empty()) return;
    set_paths(source_, given, to, paths);
  }

  bool any() const { return first_.has_value(); }

  void finish() {
    if (!first_) return;
    const auto& [from, reading] = *first_;
    if (reading.dialogue != "none") source_.set(from, "data.dialogue", Node::scalar(reading.dialogue));
    if (!reading.messages.empty()) source_.set(from, "data.messages", Node::scalar(reading.messages));
    if (!reading.source.empty()) source_.set(from, "data.source", Node::scalar(reading.source));
    if (!reading.chat_template.empty()) source_.set(from, "data.chat_template", Node::scalar(reading.chat_template));
    if (reading.dialogue == "none") source_.set(from, "data.group_texts", Node::scalar("true"));
  }

 private:
  void one(const std::string& path, const Node& item, const std::string& list, Node& paths) {
    if (!item.is_map()) {
      source_.draft().problems.add(item.mark, path,
                                   fmt::format("{} must be a group of keys; is {}", path, described(item)));
      return;
    }
    const std::string prefix = path + ".";
    source_.read(item, dataset_table(), prefix, false);
    source_.list_idle(dataset_table(), prefix);
    const auto reading = reading_of(prefix, list == "pretraining_dataset");
    if (!reading) return;
    const GivenKey from{path, item, item.mark};
    if (first_ && first_->second != *reading) {
      source_.not_honored(from, "its records are read in another way than the first ones; convert it to their format");
      return;
    }
    if (!first_)
      first_ = {source_.key(prefix + "type").value.is_null() ? from : source_.key(prefix + "type"), *reading};
    const GivenKey files = source_.key(prefix + "data_files"), name = source_.key(prefix + "path");
    const Node& where = files.value.is_null() ? name.value : files.value;
    for (const Node& file : where.is_list() ? where.items : std::vector<Node>{where})
      if (file.is_scalar()) paths.items.push_back(Node::scalar(source_.path(file.text), true));
  }

  std::optional<Reading> reading_of(const std::string& prefix, bool pretraining) {
    const GivenKey type = source_.key(prefix + "type");
    const std::string word = source_.word(prefix + "type");
    const auto text = [&](const std::string& key, const std::string& otherwise) {
      const GivenKey given = source_.key(prefix + key);
      return given.value.is_scalar() && !given.value.text.empty() ? given.value.text : otherwise;
    };
    if (pretraining) return Reading{.source = text("text_column", "text")};
    if (word == "completion") return Reading{.source = text("field", "text")};
    if (word == "alpaca") return Reading{.dialogue = "alpaca", .chat_template = "alpaca"};
    if (word == "chat_template" || word == "sharegpt") return dialogue_of(prefix, word == "sharegpt");
    source_.not_honored(type.value.is_null() ? source_.key(prefix + "path") : type,
                        "types are alpaca, chat_template, sharegpt and completion; for others write data.source and "
                        "data.target, which can be templates of columns, or data.dialogue");
    return std::nullopt;
  }

  std::optional<Reading> dialogue_of(const std::string& prefix, bool sharegpt) {
    const Node names = source_.key(prefix + "message_property_mappings").value;
    const auto name = [&](const char* what, const char* otherwise) {
      const Node* const mapped = names.find(what);
      const GivenKey field = source_.key(prefix + "message_field_" + what);
      return mapped ? mapped->text : field.value.is_null() ? std::string(otherwise) : field.value.text;
    };
    const std::string role = name("role", sharegpt ? "from" : "role");
    const std::string content = name("content", sharegpt ? "value" : "content");
    const GivenKey column = source_.key(prefix + "field_messages");
    Reading reading{.messages = column.value.text, .chat_template = chat_template(prefix)};
    if (role == "role" && content == "content") {
      reading.dialogue = "messages";
    } else if (role == "from" && content == "value") {
      reading.dialogue = "sharegpt";
    } else {
      source_.not_honored({prefix + "type", Node::scalar(role + ", " + content), names.mark},
                          "a turn has role and content, or from and value; rename the columns");
      return std::nullopt;
    }
    return reading;
  }

  std::string chat_template(const std::string& prefix) {
    const GivenKey own = source_.key(prefix + "chat_template");
    const GivenKey given = own.value.is_null() ? source_.key("chat_template") : own;
    const std::string word = lower(given.value.text);
    if (given.value.is_null() || word == "tokenizer_default") return "";
    if (word == "jinja") return source_.key("chat_template_jinja").value.text;
    for (const char* const built_in : {"chatml", "llama3", "alpaca"})
      if (word == built_in || word == std::string("tokenizer_default_fallback_") + built_in) return built_in;
    if (!reported_)
      source_.not_honored(given, "the tokenizer's own template is used; write data.chat_template for another one");
    reported_ = true;
    return "";
  }

  Source& source_;
  std::optional<std::pair<GivenKey, Reading>> first_;
  bool reported_ = false;
};

}  // namespace

void convert_data(Source& source) {
  Datasets datasets(source);
  datasets.convert("datasets", "data.train.path");
  if (!datasets.any()) datasets.convert("pretraining_dataset", "data.train.path");
  datasets.convert("test_datasets", "data.validation.path");
  datasets.finish();
  source.assume("task", "data.task", "causal_lm");
  source.assume("sequence_len", "data.max_length", "512");
  const std::string longer = source.word("excess_length_strategy");
  if (longer.empty())
    source.assume("excess_length_strategy", "data.on_too_long", "drop");
  else
    source.set("excess_length_strategy", "data.on_too_long",
               longer == "drop"    ? "drop"
               : longer == "raise" ? "error"
                                   : "cut");
  if (source.is_true("train_on_inputs")) source.set("train_on_inputs", "data.learn", "all");
  const GivenKey held_out = source.key("val_set_size");
  const auto size = parse_double(held_out.value.text);
  if (size && *size > 0 && *size < 1)
    source.set(held_out, "data.validation.fraction", held_out.value);
  else if (source.asks("val_set_size"))
    source.not_honored("val_set_size",
                       "write data.validation.fraction, a part of the samples, or data.validation.path");
}

}  // namespace trainer::config::axolotl
