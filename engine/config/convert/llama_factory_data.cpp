// LLaMA-Factory's `dataset`: names of entries in a dataset_info.json.
#include <filesystem>

#include "engine/config/convert/source.h"
#include "engine/config/plan/files.h"

namespace trainer::config::llama_factory {
namespace {

namespace fs = std::filesystem;

std::string text_at(const Node& map, const char* section, const char* key, const char* otherwise) {
  const Node* const inner = map.find(section);
  const Node* const value = inner ? inner->find(key) : nullptr;
  return value && value->is_scalar() ? value->text : otherwise;
}

struct Reading {
  std::string dialogue, messages, source, target, rejected;
  bool operator==(const Reading&) const = default;
};

/// What an entry can ask for, apart from its columns, and why it is not honored.
struct Unread {
  const char* section;  // "": the entry itself
  const char* key;
  const char* reason;
  const char* harmless = "";  // the value that asks for nothing
};
constexpr Unread kUnread[] = {
    {"", "subset", "give the files of this configuration in data.train.path"},
    {"", "split", "data.train.path stands for the training split; give the files of another one", "train"},
    {"", "folder", "give the files of this folder in data.train.path"},
    {"columns", "system", "the system text is read from the column `system`; rename this one", "system"},
    {"columns", "history", "a column with earlier turns is not read; put them into a column of turns"},
    {"columns", "tools", "tools are read from the column `tools`", "tools"}};

/// Records that are no text to learn from.
constexpr Unread kOthers[] = {{"columns", "kto_tag", "it holds replies that are good or bad, and no pairs"},
                              {"columns", "images", "it holds images, and models read text only"},
                              {"columns", "videos", "it holds videos, and models read text only"},
                              {"columns", "audios", "it holds sound, and models read text only"}};

class Datasets {
 public:
  explicit Datasets(Source& source)
      : source_(source), pretraining_(source.word("stage") == "pt"), pairs_(source.word("stage") == "dpo") {}

  void convert(const std::string& key, const std::string& to) {
    const GivenKey given = source_.key(key);
    if (!source_.asks(key)) return;
    if (!read_info(given)) return;
    Node paths = Node::list({});
    const auto names = given.value.is_list() ? given.value.items : std::vector<Node>{given.value};
    for (const Node& node : names)
      for (const std::string& name : split(node.text, ',')) one({key, Node::scalar(name), given.mark}, name, paths);
    if (paths.items.empty()) return;
    set_paths(source_, given, to, paths);
    if (key == "dataset") limit(paths.items.size() == 1);
    if (reading_ && !set_) {
      if (!reading_->dialogue.empty()) source_.set(given, "data.dialogue", Node::scalar(reading_->dialogue));
      if (!reading_->messages.empty()) source_.set(given, "data.messages", Node::scalar(reading_->messages));
      if (!reading_->source.empty()) source_.set(given, "data.source", Node::scalar(reading_->source));
      if (!reading_->target.empty()) source_.set(given, "data.target", Node::scalar(reading_->target));
      if (!reading_->rejected.empty()) source_.set(given, "data.rejected", Node::scalar(reading_->rejected));
    }
    set_ = true;
  }

 private:
  void limit(bool single) {
    const char* const each = "it limits each dataset; data.max_samples limits all of them together";
    if (single && source_.asks("max_samples"))
      source_.set("max_samples", "data.max_samples");
    else if (source_.asks("max_samples"))
      source_.not_honored("max_samples", each);
    if (drawn_.value.is_null()) return;
    if (!single || source_.asks("max_samples"))
      return source_.not_honored(drawn_, single ? "max_samples is given too" : each);
    source_.set(drawn_, "data.max_samples", drawn_.value);
    source_.set(drawn_, "data.max_samples_choice", Node::scalar("random"));
  }

  bool read_info(const GivenKey& given) {
    if (!info_.is_null()) return true;
    const GivenKey named = source_.key("dataset_dir");
    folder_ = named.value.is_scalar() ? named.value.text : "data";
    const fs::path file = folder_ / "dataset_info.json";
    if (std::error_code none; !fs::is_regular_file(file, none)) {
      source_.not_honored(given, fmt::format("the names stand in {}, which is not there; convert in the folder where "
                                             "LLaMA-Factory runs, or write data.train.path and data.dialogue",
                                             file.string()));
      return false;
    }
    info_ = read_document(file, source_.draft().problems);
    return info_.is_map();
  }

  void one(const GivenKey& from, const std::string& name, Node& paths) {
    const Node* const entry = info_.find(name);
    if (!entry || !entry->is_map()) {
      source_.draft().problems.add(
          from.mark, from.key,
          fmt::format("{}: {} is not in {}", from.key, shown(name), (folder_ / "dataset_info.json").string()));
      return;
    }
    const auto reading = reading_of(from, *entry);
    if (!reading) return;
    if (reading_ && *reading_ != *reading)
      return source_.not_honored(from,
                                 "its records are read in another way than the first ones; convert it to their format");
    reading_ = reading;
    list_unread(name, *entry);
    if (const Node* const drawn = entry->find("num_samples"); drawn && !drawn->is_null())
      drawn_ = {name + ".num_samples", *drawn, drawn->mark};
    const Node* const file = entry->find("file_name");
    const Node* const hub = entry->find("hf_hub_url");
    if (file)
      paths.items.push_back(Node::scalar(source_.path((folder_ / file->text).string()), true));
    else if (hub)
      paths.items.push_back(Node::scalar(hub->text, true));
    else
      source_.not_honored(from, "it is neither a file nor on the Hugging Face Hub; write data.train.path");
  }

  /// What `entry` asks for in `unread`; null if it is absent or asks for nothing.
  static const Node* asked(const Node& entry, const Unread& unread) {
    const Node* const map = *unread.section ? entry.find(unread.section) : &entry;
    const Node* const value = map ? map->find(unread.key) : nullptr;
    const bool nothing = !value || value->is_null() || value->text.empty() || lower(value->text) == unread.harmless;
    return nothing ? nullptr : value;
  }

  void list_unread(const std::string& name, const Node& entry) {
    for (const Unread& unread : kUnread)
      if (const Node* const value = asked(entry, unread))
        source_.not_honored({fmt::format("{}.{}", name, unread.key), *value, value->mark}, unread.reason);
  }

  std::optional<Reading> reading_of(const GivenKey& from, const Node& entry) {
    const Node* const formatting = entry.find("formatting");
    const std::string format = formatting ? formatting->text : "alpaca";
    for (const Unread& other : kOthers)
      if (asked(entry, other)) {
        source_.not_honored(from, other.reason);
        return std::nullopt;
      }
    const Node* const ranking = entry.find("ranking");
    const bool ranked = ranking && lower(ranking->text) == "true";
    if (ranked != pairs_) {
      source_.not_honored(from, ranked ? "it holds preferences, and stage is not dpo" : "it holds no pairs of replies");
      return std::nullopt;
    }
    if (pretraining_) return Reading{.source = text_at(entry, "columns", "prompt", "text")};
    if (format == "alpaca") return with_replies(instruction_of(entry), entry);
    if (format == "sharegpt" || format == "openai") {
      const auto turns = turns_of(from, entry, format == "openai");
      return turns ? std::optional(with_replies(*turns, entry)) : std::nullopt;
    }
    source_.not_honored(from, fmt::format("its formatting is {}; alpaca, sharegpt and openai are read", format));
    return std::nullopt;
  }

  Reading with_replies(Reading reading, const Node& entry) const {
    if (!pairs_) return reading;
    reading.target = text_at(entry, "columns", "chosen", "chosen");
    reading.rejected = text_at(entry, "columns", "rejected", "rejected");
    return reading;
  }

  /// With `columns`, those that it leaves out don't exist.
  static Reading instruction_of(const Node& entry) {
    const bool named = entry.find("columns") != nullptr;
    const std::string prompt = text_at(entry, "columns", "prompt", "instruction");
    const std::string query = text_at(entry, "columns", "query", named ? "" : "input");
    const std::string response = text_at(entry, "columns", "response", "output");
    if (prompt == "instruction" && query == "input" && response == "output") return {.dialogue = "alpaca"};
    const std::string both = query.empty() ? prompt : fmt::format("{{{}}}\n{{{}}}", prompt, query);
    return {.dialogue = "prompt", .source = both, .target = response};
  }

  std::optional<Reading> turns_of(const GivenKey& from, const Node& entry, bool openai) {
    const auto tag = [&](const char* key, const char* otherwise) { return text_at(entry, "tags", key, otherwise); };
    const std::string role = tag("role_tag", openai ? "role" : "from");
    const std::string content = tag("content_tag", openai ? "content" : "value");
    const std::string user = tag("user_tag", openai ? "user" : "human");
    const std::string assistant = tag("assistant_tag", openai ? "assistant" : "gpt");
    const std::string messages = text_at(entry, "columns", "messages", openai ? "messages" : "conversations");
    const bool usual = user == "user" && assistant == "assistant" && tag("system_tag", "system") == "system";
    if (role == "role" && content == "content" && usual) return Reading{.dialogue = "messages", .messages = messages};
    const bool known = (user == "human" || user == "user") && (assistant == "gpt" || assistant == "assistant");
    if (role == "from" && content == "value" && known) return Reading{.dialogue = "sharegpt", .messages = messages};
    source_.not_honored(
        from, fmt::format("its turns have {} ({}, {}) and {}; role (user, assistant) and content, or from (human, gpt) "
                          "and value, are read",
                          role, user, assistant, content));
    return std::nullopt;
  }

  Source& source_;
  bool pretraining_, pairs_, set_ = false;
  fs::path folder_;
  Node info_;
  std::optional<Reading> reading_;
  GivenKey drawn_;  // the entry's num_samples
};

void convert_template(Source& source) {
  const GivenKey given = source.key("template");
  const std::string word = source.word("template");
  if (word.empty()) return;
  for (const char* const built_in : {"llama2", "llama3", "mistral", "alpaca", "chatml"})
    if (word == built_in) return source.set("template", "data.chat_template", built_in);
  source.not_honored(given, "the tokenizer's own template is used; write data.chat_template for another one");
}

}  // namespace

void convert_data(Source& source) {
  const bool pretraining = source.word("stage") == "pt";
  Datasets datasets(source);
  datasets.convert("dataset", "data.train.path");
  datasets.convert("eval_dataset", "data.validation.path");
  source.assume("task", "data.task", "causal_lm");
  source.assume("cutoff_len", "data.max_length", "2048");
  if (!pretraining)
    convert_template(source);
  else if (source.key("packing").value.is_null() || source.is_true("packing"))
    source.set({"packing", Node::scalar("true"), source.document().mark}, "data.group_texts", Node::scalar("true"));
  if (!pretraining && source.asks("packing"))
    source.not_honored("packing",
                       "samples are never padded, and an update has its number of samples whatever their length; raise "
                       "training.global_batch_size for more tokens in an update");
  if (source.is_true("train_on_prompt")) source.set("train_on_prompt", "data.learn", "all");
  if (source.is_true("mask_history")) source.set("mask_history", "data.learn", "last_turn");
  if (source.is_true("disable_shuffling")) source.set("disable_shuffling", "data.shuffle", "false");
  const GivenKey held_out = source.key("val_size");
  const auto size = parse_double(held_out.value.text);
  if (size && *size > 0 && *size < 1)
    source.set(held_out, "data.validation.fraction", held_out.value);
  else if (source.asks("val_size"))
    source.not_honored("val_size", "write data.validation.fraction, a part of the samples, or data.validation.path");
}

}  // namespace trainer::config::llama_factory
