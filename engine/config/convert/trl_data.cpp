// TRL's datasets: one by name, or a mixture. Which columns a record has isn't in the file.
#include <algorithm>

#include "engine/config/convert/source.h"

namespace trainer::config::trl {
namespace {

constexpr const char* kBuilders[] = {"json", "csv", "parquet", "arrow", "text"};

const Entries& dataset_table() {
  const char* const part = "give the files of this part of the dataset in data.train.path";
  static const Entries entries = foreign_table(
      translated("path", "data.train.path"), translated("data_files", "data.train.path, if `path` is a file format"),
      no_effect("name", part), no_effect("data_dir", part),
      no_effect("split", "data.train.path stands for the training split; give the files of another one")
          .harmless({"train"}),
      no_effect("columns", "data.source and data.target, or data.messages, select the columns"),
      no_effect("fraction", "data.train.weights draws samples by weight; TRL reads the first ones of each dataset"));
  return entries;
}

void add_paths(const Source& source, const Node& names, Node& paths) {
  for (const Node& name : names.is_list() ? names.items : std::vector<Node>{names})
    if (name.is_scalar()) paths.items.push_back(Node::scalar(source.path(name.text), true));
}

void add_dataset(Source& source, const std::string& path, const Node& item, Node& paths) {
  if (!item.is_map()) {
    source.draft().problems.add(item.mark, path,
                                fmt::format("{} must be a group of keys; is {}", path, described(item)));
    return;
  }
  const std::string prefix = path + ".";
  source.read(item, dataset_table(), prefix, false);
  source.list_idle(dataset_table(), prefix);
  const GivenKey files = source.key(prefix + "data_files"), name = source.key(prefix + "path");
  const bool format =
      std::find(std::begin(kBuilders), std::end(kBuilders), lower(name.value.text)) != std::end(kBuilders);
  const Node* const train = files.value.find("train");
  if (format)
    add_paths(source, train ? *train : files.value, paths);
  else
    add_paths(source, name.value, paths);
  if (!format && source.asks(prefix + "data_files"))
    source.not_honored(files, "give these files of the dataset in data.train.path");
}

void convert_mixture(Source& source, const GivenKey& list) {
  if (!list.value.is_list()) {
    source.draft().problems.add(list.mark, list.key,
                                fmt::format("datasets must be a list; is {}", described(list.value)));
    return;
  }
  Node paths = Node::list({});
  std::size_t index = 0;
  for (const Node& item : list.value.items) add_dataset(source, fmt::format("datasets[{}]", index++), item, paths);
  if (!paths.items.empty()) set_paths(source, list, "data.train.path", paths);
  if (source.asks("dataset_name"))
    source.not_honored("dataset_name", "datasets, which is also given, takes precedence");
  const GivenKey held_out = source.key("test_split_size");
  const auto size = parse_double(held_out.value.text);
  if (size && *size > 0 && *size < 1)
    source.set(held_out, "data.validation.fraction", held_out.value);
  else if (source.asks("test_split_size"))
    source.not_honored(held_out, "write data.validation.fraction, a part of the samples, or data.validation.path");
}

bool evaluates(const Node& document) {
  for (const char* const key : {"eval_strategy", "evaluation_strategy"}) {
    const Node* const strategy = document.find(key);
    if (strategy && !asks_nothing(*strategy, {"no"})) return true;
  }
  return false;
}

void convert_named(Source& source, const GivenKey& name) {
  const Node path = Node::scalar(source.path(name.value.text), true);
  source.set(name, "data.train.path", path);
  if (!evaluates(source.document())) return;
  GivenKey split = source.key("dataset_test_split");
  if (split.value.is_null())
    split = {"dataset_test_split (left out, so its default)", Node::scalar("test"), source.document().mark};
  if (lower(split.value.text) == "validation")
    source.set(split, "data.validation.path", path);
  else
    source.not_honored(split, "data.validation.path stands for the split validation; give the files of this one in it");
}

void convert_length(Source& source) {
  for (const char* const key : {"max_length", "max_seq_length"}) {
    const Node* const given = source.document().find(key);
    if (!given || !asks_nothing(*given, {})) continue;
    // No option means "any length". Rather than cut samples that TRL doesn't, the run ends and names the first one.
    const GivenKey none{key, *given, given->mark};
    source.not_honored(none,
                       "a run has a maximum length: set data.max_length, up to the model's positions; "
                       "data.on_too_long: error names the first longer sample");
    source.set(none, "data.on_too_long", Node::scalar("error"));
    return;
  }
  source.set("max_length", "data.max_length");
  source.assume("max_length", "data.max_length", "1024");
}

}  // namespace

void leave_columns_open(Source& source, const std::string& advice) {
  if (!source.asks("datasets") && !source.asks("dataset_name")) return;
  const GivenKey list = source.key("datasets");
  source.leave_open(list.value.is_null() ? source.key("dataset_name") : list,
                    "TRL reads a record by its columns, which the file doesn't name; this job reads " + advice);
}

void convert_data(Source& source) {
  const GivenKey list = source.key("datasets"), name = source.key("dataset_name");
  source.assume("task", "data.task", "causal_lm");
  if (source.asks("datasets"))
    convert_mixture(source, list);
  else if (name.value.is_scalar())
    convert_named(source, name);
  if (!source.asks("datasets") && source.asks("test_split_size"))
    source.not_honored("test_split_size", "datasets is not given");
  convert_length(source);
  source.set("dataset_num_proc", "data.preprocessing_num_workers");
}

}  // namespace trainer::config::trl
