// Questions about the model and its tokenizer.
#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/base/human.h"
#include "engine/config/document/json_text.h"
#include "engine/config/machine/device.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/names.h"
#include "engine/config/wizard/asker.h"
#include "engine/config/wizard/sizes.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

/// Reports what the folder contains instead of a model.
std::string instead_of_model(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "adapter_config.json", error))
    return fmt::format("{} contains an adapter. Enter its base model here; the adapter belongs in lora.path.",
                       folder.string());
  std::vector<std::string> names;
  constexpr std::size_t kMost = 6;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  const bool more = names.size() > kMost;
  if (more) names.resize(kMost);
  return fmt::format(
      "There is no config.json in {}; it contains {}{}. Enter the folder with config.json and the weights.",
      folder.string(), names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")), more ? ", …" : "");
}

/// The first of the goal's tasks that the model can be trained for; nullopt: none.
std::optional<Task> common_task(const ModelDescription& model, Goal goal) {
  for (const Task task : tasks_of(goal))
    if (std::count(model.tasks.begin(), model.tasks.end(), name_of(task)) != 0) return task;
  return std::nullopt;
}

std::string unfit_task(const ModelDescription& model, Goal goal) {
  if (model.tasks.empty() || common_task(model, goal)) return "";
  std::vector<std::string> wanted;
  for (const Task task : tasks_of(goal)) wanted.push_back(name_of(task));
  return fmt::format(
      "This is a model of type {}, which this version trains for {}; `{}` needs one for {}.\nEnter another model, or "
      "type < to go back and choose something else to do.",
      model.family, fmt::join(model.tasks, " and "), name_of(goal), fmt::join(wanted, " or "));
}

/// "" or why the draft's model can't be trained; a model that is not on this machine is accepted.
std::string unfit_model(Asker& ask, Goal goal) {
  const fs::path folder = ask.opened_or_cached(ask.config().model.path);
  std::error_code ignored;
  if (fs::is_regular_file(folder, ignored))
    return fmt::format("{} is a file. Enter the folder with config.json and the weights.", folder.string());
  if (!fs::exists(folder, ignored)) return "";
  if (!fs::exists(folder / "config.json", ignored)) return instead_of_model(folder);
  const auto model = ask.described_model();
  if (!model) return "";
  return model->error.empty() ? unfit_task(*model, goal) : model->error;
}

/// "" or a message that `path` does not exist.
std::string missing(Asker& ask, const std::string& path) {
  const std::string folder = ask.opened_or_cached(path);
  std::error_code ignored;
  if (fs::exists(folder, ignored)) return "";
  const std::string cached = !is_hub_name(path)
                                 ? ""
                                 : fmt::format(
                                       ", and the Hub cache ({}) does not contain {}.\nModels are not downloaded "
                                       "automatically: `hf download {}` on a machine with network access puts it there",
                                       hub_cache().string(), path, path);
  return fmt::format("{} does not exist{}.\nType it again to keep it for another machine.", folder, cached);
}

std::string unfit_tokenizer(Asker& ask) {
  const auto tokenizer = ask.tokenizer();
  const std::string& path = ask.config().tokenizer.path;
  std::error_code ignored;
  if (!tokenizer || (!path.empty() && !fs::exists(ask.opened_or_cached(path), ignored))) return "";
  if (!tokenizer->error.empty()) return tokenizer->error;
  const auto model = ask.config().model.path.empty() ? std::nullopt : ask.model();
  if (!model || model->vocabulary == 0 || tokenizer->size <= model->vocabulary) return "";
  return fmt::format(
      "This tokenizer has {} tokens, but the model's vocabulary has {}. Enter the model's own tokenizer.",
      tokenizer->size, model->vocabulary);
}

void ask_tokenizer(Asker& ask) {
  ask.option(
      "tokenizer.path",
      {.help = "Folder with a tokenizer's files, one of these files, or a Hub name as for model.path. This trains one "
               "on your texts:\n"
               "  trainer tokenize train --input FILE --vocab_size 8000 --output tokenizer\n"
               "with --layout bert to classify, and --layout llama to continue texts and for dialogues.",
       .needed = "A tokenizer is required: enter its folder.",
       .fits = [&] { return unfit_tokenizer(ask); },
       .doubt = [&] { return missing(ask, ask.config().tokenizer.path); }});
}

void say_tokenizer(Asker& ask) {
  const auto tokenizer = ask.tokenizer();
  if (!tokenizer || !tokenizer->error.empty()) return;
  ask.say(fmt::format("  The tokenizer has {} tokens{}.", tokenizer->size,
                      tokenizer->chat_template ? " and a chat template" : ""));
}

/// Used if trainer-prepare is not available to read it.
bool looks_like_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  for (const char* const name : {"tokenizer.json", "spiece.model", "tokenizer.model", "vocab.json", "vocab.txt"})
    if (fs::exists(folder / name, ignored)) return true;
  return false;
}

/// Model folders usually contain the tokenizer: then nothing is asked.
void find_tokenizer(Asker& ask) {
  const fs::path folder = ask.opened_or_cached(ask.config().model.path);
  std::error_code ignored;
  if (ask.draft().has("tokenizer.path")) {
    ask_tokenizer(ask);
  } else if (!fs::exists(folder, ignored)) {
    return;
  } else if (!ask.tokenizer()) {
    if (!looks_like_tokenizer(folder)) ask_tokenizer(ask);
  } else if (const std::string why = unfit_tokenizer(ask); !why.empty()) {
    ask.say("  " + why);
    ask_tokenizer(ask);
  }
  say_tokenizer(ask);
}

/// The task that the model and the goal have in common. If the model is unknown, its kind is asked for where it
/// matters.
void settle_task(Asker& ask, Goal goal) {
  const auto model = ask.model();
  std::optional<Task> task = model ? common_task(*model, goal) : std::nullopt;
  if (!task && tasks_of(goal).size() > 1) {
    const std::string pairs = "seq2seq_lm: an encoder and a decoder (T5)",
                      texts = "causal_lm: a decoder alone (LLaMA, Mistral, Qwen, Gemma, GPT-2)";
    const bool causal = ask.config().data.task == Task::kCausalLm;
    const std::string kind =
        ask.choice("Which kind of model is it?", causal ? texts : pairs, {pairs, texts},
                   "The model is not on this machine, so its config.json can't tell.\nIn the file: data.task");
    task = kind == texts ? Task::kCausalLm : Task::kSeq2SeqLm;
  }
  if (task) ask.draft().assign("data.task", encode(*task));
}

void ask_folder(Asker& ask, Goal goal) {
  ask.draft().erase("model.config");
  ask.config().model.config.clear();
  ask.option(
      "model.path",
      {.needed = "A model is required: enter its folder, or type < to go back, where `scratch` builds a new one.",
       .fits = [&] { return unfit_model(ask, goal); },
       .doubt = [&] { return missing(ask, ask.config().model.path); }});
  if (ask.config().model.path.empty()) return;  // the input has ended
  if (!missing(ask, ask.config().model.path).empty())
    ask.say(fmt::format("  {} does not exist on this machine.", ask.opened_or_cached(ask.config().model.path)));
  settle_task(ask, goal);
  if (goal != Goal::kImages) find_tokenizer(ask);
}

/// A model built from scratch has the vocabulary size of its tokenizer, or a larger one.
int64_t ask_vocabulary(Asker& ask) {
  int64_t size = 0;
  if (const std::string& config = ask.config().model.config; !config.empty())
    if (const Node given = from_json(config); given.find("vocab_size")) decode(*given.find("vocab_size"), size);
  const auto tokenizer = ask.tokenizer();
  if (tokenizer && tokenizer->error.empty()) return std::max(size, tokenizer->size);
  constexpr int64_t kUsualVocabulary = 32128;  // T5's
  if (size == 0) size = kUsualVocabulary;
  ask.number("How large is its vocabulary? (`trainer tokenize train` prints it)", size,
             "The number of tokens that the tokenizer knows.\nIn the file: model.config.vocab_size");
  return size;
}

struct SizeChoice {
  std::string words;
  Node config;
  int64_t parameters = 0;  // 0: unknown
};

std::string words_of(const std::string& name, int64_t parameters) {
  if (parameters == 0) return name;
  return fmt::format("{}: {} parameters, {} to train", name, human_count(static_cast<double>(parameters)),
                     human_bytes(bytes_to_train(parameters)));
}

SizeChoice size_choice(Asker& ask, const std::string& name, Node config) {
  const auto model = ask.described(to_json(config));
  const int64_t parameters = model && model->error.empty() ? model->parameters : 0;
  return {words_of(name, parameters), std::move(config), parameters};
}

/// The sizes that fit this machine, at least the smallest one. First the configuration's own model, if it serves the
/// goal.
std::vector<SizeChoice> size_choices(Asker& ask, Goal goal, int64_t vocabulary) {
  std::vector<SizeChoice> choices;
  const auto own = ask.described_model();
  const auto with_vocabulary = [&](Node config) {
    if (vocabulary > 0) config["vocab_size"] = encode(vocabulary);
    return config;
  };
  if (const std::string& config = ask.config().model.config; !config.empty())
    if (!own || (own->error.empty() && unfit_task(*own, goal).empty()))
      choices.push_back(size_choice(ask, "the one in the file", with_vocabulary(from_json(config))));
  const int64_t limit = bytes_for_model(ask.config(), ask.machine());
  for (const ModelSize& size : sizes_of(goal)) {
    SizeChoice choice = size_choice(ask, size.name, with_vocabulary(from_json(size.config)));
    const bool fits = limit == 0 || bytes_to_train(choice.parameters) <= limit;
    if (fits || choices.empty()) choices.push_back(std::move(choice));
  }
  return choices;
}

/// A few layers on a CPU, where a larger model takes days; otherwise the middle size.
std::string usual_size(const std::vector<SizeChoice>& choices, bool on_gpus) {
  if (choices.front().words.starts_with("the one in the file")) return choices.front().words;
  for (const SizeChoice& choice : choices)
    if (choice.words.starts_with(on_gpus ? "medium" : "small")) return choice.words;
  return choices.front().words;
}

void ask_size(Asker& ask, Goal goal, int64_t vocabulary) {
  const std::vector<SizeChoice> choices = size_choices(ask, goal, vocabulary);
  std::vector<std::string> words;
  for (const SizeChoice& choice : choices) words.push_back(choice.words);
  const bool on_gpus = asks_for_gpus(ask.config()) && !ask.machine().gpus.empty();
  const std::string answer =
      ask.choice("How large should it be?", usual_size(choices, on_gpus), words,
                 "Only sizes are offered whose weights, gradients and optimizer state (the bytes\n"
                 "`to train`) leave a quarter of the memory for activations. Training a model well\n"
                 "takes some 20 tokens of text for each parameter.\nIn the file: model.config, whose values can be "
                 "changed there.");
  const auto chosen = std::find(words.begin(), words.end(), answer) - words.begin();
  ask.draft().assign("model.config", choices[static_cast<std::size_t>(chosen)].config);
}

void ask_scratch(Asker& ask, Goal goal) {
  ask.draft().erase("model.path");
  int64_t vocabulary = 0;
  if (goal != Goal::kImages) {
    ask_tokenizer(ask);
    say_tokenizer(ask);
    vocabulary = ask_vocabulary(ask);
  }
  ask_size(ask, goal, vocabulary);
  if (const auto model = ask.model()) {
    if (const auto task = common_task(*model, goal)) ask.draft().assign("data.task", encode(*task));
  }
}

}  // namespace

void ask_model(Asker& ask, const Aim& aim) {
  aim.from_scratch ? ask_scratch(ask, aim.goal) : ask_folder(ask, aim.goal);
}

}  // namespace trainer::config
