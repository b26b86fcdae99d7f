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
  std::string dialogue, messages, source;
  bool operator==(const Reading&) const = default;
};

class Datasets {
 public:
  Datasets(Source& source, bool pretraining) : source_(source), pretraining_(pretraining) {}

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
    if (key == "dataset" && paths.items.size() == 1) source_.set("max_samples", "data.max_samples");
    if (key == "dataset" && paths.items.size() > 1 && source_.asks("max_samples"))
      source_.not_honored("max_samples", "it limits each dataset; data.max_samples limits all of them together");
    if (reading_ && !set_) {
      if (!reading_->dialogue.empty()) source_.set(given, "data.dialogue", Node::scalar(reading_->dialogue));
      if (!reading_->messages.empty()) source_.set(given, "data.messages", Node::scalar(reading_->messages));
      if (!reading_->source.empty()) source_.set(given, "data.source", Node::scalar(reading_->source));
    }
    set_ = true;
  }

 private:
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
    const Node* const file = entry->find("file_name");
    const Node* const hub = entry->find("hf_hub_url");
    if (file)
      paths.items.push_back(Node::scalar(source_.path((folder_ / file->text).string()), true));
    else if (hub)
      paths.items.push_back(Node::scalar(hub->text, true));
    else
      source_.not_honored(from, "it is neither a file nor on the Hugging Face Hub; write data.train.path");
  }

  std::optional<Reading> reading_of(const GivenKey& from, const Node& entry) {
    const Node* const formatting = entry.find("formatting");
    const std::string format = formatting ? formatting->text : "alpaca";
    const Node* const ranking = entry.find("ranking");
    if (ranking && parse_bool(ranking->text) == true) {
      source_.not_honored(from, "it holds preferences");
      return std::nullopt;
    }
    if (pretraining_)
      return Reading{.dialogue = "", .messages = "", .source = text_at(entry, "columns", "prompt", "text")};
    if (format == "alpaca") {
      const bool usual = text_at(entry, "columns", "prompt", "instruction") == "instruction" &&
                         text_at(entry, "columns", "query", "input") == "input" &&
                         text_at(entry, "columns", "response", "output") == "output";
      if (usual) return Reading{.dialogue = "alpaca", .messages = "", .source = ""};
    } else if (format == "sharegpt" || format == "openai") {
      const bool openai = format == "openai";
      const std::string role = text_at(entry, "tags", "role_tag", openai ? "role" : "from");
      const std::string content = text_at(entry, "tags", "content_tag", openai ? "content" : "value");
      const std::string messages = text_at(entry, "columns", "messages", openai ? "messages" : "conversations");
      for (const char* const media : {"images", "videos", "audios"})
        if (!text_at(entry, "columns", media, "").empty()) {
          source_.not_honored(from, "it holds images, video or sound, and models read text only");
          return std::nullopt;
        }
      if (role == "role" && content == "content")
        return Reading{.dialogue = "messages", .messages = messages, .source = ""};
      if (role == "from" && content == "value")
        return Reading{.dialogue = "sharegpt", .messages = messages, .source = ""};
    }
    source_.not_honored(from, "its columns have names of their own; write data.source and data.target, or rename them");
    return std::nullopt;
  }

  Source& source_;
  bool pretraining_, set_ = false;
  fs::path folder_;
  Node info_;
  std::optional<Reading> reading_;
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
  Datasets datasets(source, pretraining);
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
