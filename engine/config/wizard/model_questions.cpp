// Questions about the task, the model and its tokenizer.
#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/config/document/json_text.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/names.h"
#include "engine/config/wizard/asker.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

struct TaskChoice {
  Task task;
  const char* words;
  const char* scratch;  // the model that is built from scratch for it
  const char* config;   // its config.json
};

constexpr TaskChoice kTasks[] = {
    {Task::kSeq2SeqLm, "seq2seq_lm: text to text, such as translation or summarization (T5)",
     "from scratch: a small T5",
     R"({"model_type":"t5","d_model":256,"d_kv":64,"d_ff":1024,"num_layers":4,"num_decoder_layers":4,"num_heads":4})"},
    {Task::kCausalLm, "causal_lm: text generation and chat (LLaMA, Mistral, Qwen, GPT-2)",
     "from scratch: a small LLaMA",
     R"({"model_type":"llama","hidden_size":256,"intermediate_size":688,"num_hidden_layers":4,)"
     R"("num_attention_heads":4,"max_position_embeddings":1024})"},
    {Task::kSequenceClassification, "sequence_classification: the class of a text (BERT, LLaMA, GPT-2 …)",
     "from scratch: a small BERT",
     R"({"model_type":"bert","hidden_size":256,"intermediate_size":1024,"num_hidden_layers":4,)"
     R"("num_attention_heads":4,"max_position_embeddings":512})"},
    {Task::kImageClassification, "image_classification: the class of an image (MNIST's file format)",
     "from scratch: a small network (MLP)",
     R"({"model_type":"mlp","input_size":784,"hidden_sizes":[128],"num_labels":10})"},
};
const std::string kNothing = "nothing yet: the file contains only Accelerate's part";
const std::string kFolder = "a folder, or the cache of the Hugging Face Hub";

const TaskChoice& chosen(Task task) {
  return *std::find_if(std::begin(kTasks), std::end(kTasks), [&](const TaskChoice& c) { return c.task == task; });
}

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

std::string unfit_task(const ModelDescription& model, Task task) {
  const std::string wanted = name_of(task);
  if (model.tasks.empty() || std::count(model.tasks.begin(), model.tasks.end(), wanted) != 0) return "";
  return fmt::format(
      "This is a model of type {}, which this version trains for {}, not {}.\nEnter another model, or type < to go "
      "back and choose another task.",
      model.family, fmt::join(model.tasks, " and "), wanted);
}

/// "" or why the draft's model can't be trained; a model that is not on this machine is accepted.
std::string unfit_model(Asker& ask) {
  const fs::path folder = ask.opened_or_cached(ask.config().model.path);
  std::error_code ignored;
  if (fs::is_regular_file(folder, ignored))
    return fmt::format("{} is a file. Enter the folder with config.json and the weights.", folder.string());
  if (!fs::exists(folder, ignored)) return "";
  if (!fs::exists(folder / "config.json", ignored)) return instead_of_model(folder);
  const auto model = ask.described_model();
  if (!model) return "";
  return model->error.empty() ? unfit_task(*model, ask.config().data.task) : model->error;
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
  ask.option("tokenizer.path", {.needed = "A tokenizer is required: enter its folder.",
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

void ask_folder(Asker& ask) {
  ask.draft().erase("model.config");
  ask.config().model.config.clear();
  ask.option("model.path", {.needed = "A model is required: enter its folder, or type < to go back.",
                            .fits = [&] { return unfit_model(ask); },
                            .doubt = [&] { return missing(ask, ask.config().model.path); }});
  if (ask.config().model.path.empty()) return;  // the input has ended
  if (!missing(ask, ask.config().model.path).empty())
    ask.say(fmt::format("  {} does not exist on this machine.", ask.opened_or_cached(ask.config().model.path)));
  if (ask.config().data.task != Task::kImageClassification) find_tokenizer(ask);
}

/// A model built from scratch has the vocabulary size of its tokenizer.
void settle_vocabulary(Asker& ask) {
  Node model = from_json(ask.config().model.config);
  const auto tokenizer = ask.tokenizer();
  int64_t size = 0;
  if (const Node* given = model.find("vocab_size")) decode(*given, size);
  if (tokenizer && tokenizer->error.empty()) {
    size = std::max(size, tokenizer->size);
  } else {
    constexpr int64_t kUsualVocabulary = 32128;  // T5's
    if (size == 0) size = kUsualVocabulary;
    ask.number("How large is its vocabulary? (`trainer tokenize train` prints it)", size);
  }
  model["vocab_size"] = encode(size);
  ask.draft().assign("model.config", model);
}

void ask_scratch(Asker& ask) {
  WizardDraft& draft = ask.draft();
  const TaskChoice& choice = chosen(draft.config.data.task);
  draft.erase("model.path");
  const auto model = ask.described_model();
  const bool fits = !model || (model->error.empty() && unfit_task(*model, choice.task).empty());
  if (draft.config.model.config.empty() || !fits) draft.assign("model.config", from_json(choice.config));
  if (choice.task == Task::kImageClassification) return;
  ask_tokenizer(ask);
  say_tokenizer(ask);
  settle_vocabulary(ask);
}

}  // namespace

bool ask_task(Asker& ask) {
  std::vector<std::string> choices;
  for (const TaskChoice& choice : kTasks) choices.emplace_back(choice.words);
  choices.push_back(kNothing);
  const std::string answer = ask.choice("What do you want to train?", chosen(ask.config().data.task).words, choices);
  if (answer == kNothing) return false;
  for (const TaskChoice& choice : kTasks)
    if (answer == choice.words) ask.draft().assign("data.task", encode(choice.task));
  return true;
}

void ask_model(Asker& ask) {
  const Config& config = ask.config();
  const std::string scratch = chosen(config.data.task).scratch;
  const bool images = config.data.task == Task::kImageClassification;
  const bool built = config.model.path.empty() && (images || !config.model.config.empty());
  const bool builds =
      ask.choice("Where does the model come from?", built ? scratch : kFolder, {kFolder, scratch}) == scratch;
  builds ? ask_scratch(ask) : ask_folder(ask);
}

}  // namespace trainer::config
