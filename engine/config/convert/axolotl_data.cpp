// axolotl's `datasets`: a list of files and Hub names, each with a `type`.
#include <algorithm>

#include "engine/config/convert/axolotl_types.h"
#include "engine/config/convert/source.h"

namespace trainer::config::axolotl {
namespace {

const Entries& dataset_table() {
  const char* const roles = "data.learn selects the turns that are learned: assistant, all or last_turn";
  const char* const files = "data.train.path stands for the training split; give the files of another one";
  const char* const names = "roles are user, assistant and system, or sharegpt's human, gpt and system";
  const char* const python = "no Python code runs";
  const char* const types = "data.train.format is recognized by the files' names";
  static const Entries entries = foreign_table(
      translated("path", "data.train.path"), translated("data_files", "data.train.path, instead of `path`"),
      translated("type", "data.dialogue, or data.source and data.target"),
      translated("field", "data.source of completion"), translated("field_messages", "data.messages"),
      translated("message_property_mappings", "role and content, or from and value"),
      translated("message_field_role", "role or from"), translated("message_field_content", "content or value"),
      translated("chat_template", "as at the top"), translated("chat_template_jinja", "as at the top"),
      translated("field_chosen", "data.target of pairs"), translated("field_rejected", "data.rejected"),
      translated("text_column", "data.source"), no_effect("split", files).harmless({"train"}),
      no_effect("name", "give the files of this configuration in data.train.path"), no_effect("train_on_split", files),
      no_effect("revision", "the newest snapshot in the Hub's cache is read"),
      no_effect("field_tools", "tools are read from the column `tools`").harmless({"tools"}),
      no_effect("input_format", python), no_effect("input_transform", python), no_effect("trust_remote_code", python),
      no_effect("split_thinking", "turns have one text"), no_effect("message_field_training_detail", roles),
      no_effect("train_on_eot", roles).harmless({"turn"}), no_effect("skip", "all samples are read"),
      no_effect("shards_idx", "data.max_samples limits the samples"),
      no_effect("preprocess_shards", "samples are read one by one"),
      no_effect("ds_type", types).harmless({"json", "csv", "parquet", "arrow", "text"}), no_effect("roles", names),
      no_effect("roles_to_train", roles).harmless({"assistant", "gpt"}),
      no_effect("train_on_eos", roles).harmless({"turn"}), no_effect("train_on_last_step_only", roles),
      no_effect("message_field_training", roles), no_effect("drop_system_message", "system messages are kept"),
      no_effect("field_thinking", "turns have one text"), no_effect("template_thinking_key", "turns have one text"),
      no_effect("shards", "data.max_samples limits the samples"),
      no_effect("conversation", "data.chat_template names the template"));
  return entries;
}

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
    const auto set = [&, from = from](const char* to, const std::string& text) {
      if (!text.empty()) source_.set(from, to, Node::scalar(text, true));
    };
    if (reading.dialogue != "none") set("data.dialogue", reading.dialogue);
    set("data.messages", reading.messages);
    set("data.source", reading.source);
    set("data.target", reading.target);
    set("data.rejected", reading.rejected);
    set("data.chat_template", reading.chat_template);
    if (!source_.asks("default_system_message")) set("data.system", reading.system);
    if (reading.groups) source_.set(from, "data.group_texts", Node::scalar("true"));
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
    const std::string name = type.value.is_scalar() ? type.value.text : "";
    const auto text = [&](const std::string& key, const std::string& otherwise) {
      const GivenKey given = source_.key(prefix + key);
      return given.value.is_scalar() && !given.value.text.empty() ? given.value.text : otherwise;
    };
    if (pretraining && (name.empty() || name == "pretrain"))
      return Reading{.source = text("text_column", "text"), .groups = true};
    if (name == "completion") return Reading{.source = text("field", "text"), .groups = true};
    if (source_.asks("rl")) return pair_of(prefix, name, type);
    const bool sharegpt = name == "sharegpt" || name.starts_with("sharegpt.") || name.starts_with("sharegpt:");
    if (name == "chat_template" || name == "chat_template.default" || sharegpt) return dialogue_of(prefix, sharegpt);
    if (name.empty() && !type.value.is_map()) {
      source_.not_honored(source_.key(prefix + "path"),
                          "without a type, records hold token ids; give texts, or Megatron's "
                          ".bin and .idx files, as data.train.path");
      return std::nullopt;
    }
    const TypeReading found = type.value.is_map() ? reading_of_own_type(type.value) : reading_of_type(name);
    const std::string& listed = found.reason.empty() ? found.differs : found.reason;
    if (!listed.empty()) source_.not_honored(type, listed);
    return found.reason.empty() ? std::optional(found.reading) : std::nullopt;
  }

  /// Pairs of replies: chat_template.default has the turns before them in a column of its own.
  std::optional<Reading> pair_of(const std::string& prefix, const std::string& name, const GivenKey& type) {
    const bool whole = name == "chat_template.argilla_chat";
    if (name != "chat_template" && name != "chat_template.default" && !whole) {
      const TypeReading found = reading_of_pair_type(name);
      if (!found.reason.empty()) source_.not_honored(type, found.reason);
      return found.reason.empty() ? std::optional(found.reading) : std::nullopt;
    }
    auto reading = dialogue_of(prefix, false);
    if (!reading) return reading;
    const auto column = [&](const char* key, const char* otherwise) {
      const GivenKey given = source_.key(prefix + key);
      return given.value.is_scalar() ? given.value.text : std::string(otherwise);
    };
    reading->target = column("field_chosen", "chosen");
    reading->rejected = column("field_rejected", "rejected");
    if (reading->messages.empty() && !whole) reading->messages = "messages";
    return reading;
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
      if (reading.messages.empty() && !sharegpt) reading.messages = "messages";
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
    const GivenKey own_jinja = source_.key(prefix + "chat_template_jinja");
    const GivenKey jinja = own_jinja.value.is_null() ? source_.key("chat_template_jinja") : own_jinja;
    const std::string word = lower(given.value.text);
    if (given.value.is_null() || word == "jinja") return source_.path(jinja.value.text);
    if (word == "tokenizer_default") return "";
    for (const char* const built_in : {"chatml", "llama3", "alpaca"})
      if (word == built_in) return built_in;
    const std::string fallback = "tokenizer_default_fallback_";
    const std::string other = word.starts_with(fallback) ? word.substr(fallback.size()) : "";
    if (!reported_)
      source_.not_honored(given, "the tokenizer's own template is used; write data.chat_template for another one" +
                                     (other.empty() ? "" : ", such as " + other + ", if it has none"));
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
