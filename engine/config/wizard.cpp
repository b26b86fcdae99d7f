#include "engine/config/wizard.h"

#include <algorithm>

#include "engine/config/files.h"
#include "engine/config/json_text.h"
#include "engine/config/reader.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// The model that the wizard offers when there is no folder with one.
constexpr const char* kSmallT5 =
    R"({"model_type":"t5","d_model":256,"d_kv":64,"d_ff":1024,"num_layers":4,"num_decoder_layers":4,"num_heads":4})";

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::size_t first = text.find_first_not_of(" \t", start);
    if (first < end) out.push_back(text.substr(first, text.find_last_not_of(" \t", end - 1) - first + 1));
    start = end + 1;
  }
  return out;
}

/// A typed answer as the node that a file would have. A line can't hold a list, so commas divide it.
Node node_of_answer(const Entry& entry, const std::string& answer) {
  const bool pattern = entry.kind.words == kind_of<NamesOrPattern>().words;
  const bool list = entry.kind.words.starts_with("a list");
  const bool is_regex = answer.find_first_of("()[]{}*+?^$\\|") != std::string::npos || answer == "all-linear";
  return list && !(pattern && is_regex) ? Node::list(parts(answer)) : Node::scalar(answer);
}

std::string text_of(const Node& node) {
  if (!node.is_list()) return node.text;
  std::string out;
  for (const Node& item : node.items) out += (out.empty() ? "" : ",") + item.text;
  return out;
}

class Wizard {
 public:
  Wizard(Config& config, Prompter& prompter) : config_(config), prompter_(prompter) {}

  void ask(const Entries& entries, void* section) {
    for (const Entry& entry : entries) {
      if (ended_) return;
      if (entry.foreign != Foreign::kNot || (entry.applies && !entry.applies(config_))) continue;
      if (entry.children == &model_table()) {
        ask_model();
      } else if (entry.children) {
        if (entry.clear && !ask_optional(entry, section)) continue;
        ask(*entry.children, entry.open(section));
      } else if (!entry.question.empty()) {
        ask_option(entry, section);
      }
    }
  }

 private:
  std::optional<std::string> answer_to(const std::string& question, const std::string& current,
                                       const std::vector<std::string>& choices = {}) {
    auto answer = prompter_.ask(question, current, choices);
    if (!answer) ended_ = true;
    if (answer && answer->empty()) return std::nullopt;
    return answer;
  }

  /// Why `answer` is not acceptable, or "" after storing it.
  std::string store(const Entry& entry, void* section, const std::string& answer) {
    if (std::string why = entry.read(node_of_answer(entry, answer), section); !why.empty()) return why;
    for (const auto& check : entry.checks) {
      if (std::string why = check(section); !why.empty()) return why;
    }
    return entry.unsupported ? entry.unsupported(section) : "";
  }

  void ask_option(const Entry& entry, void* section) {
    const Node before = entry.write(section);
    std::vector<std::string> choices = entry.kind.choices;
    if (entry.kind.words == kind_of<bool>().words) choices = {"yes", "no"};
    std::string current = text_of(before);
    if (!choices.empty() && choices.front() == "yes") current = current == "true" ? "yes" : "no";
    while (auto answer = answer_to(entry.question, current, choices)) {
      const std::string why = store(entry, section, *answer);
      if (why.empty()) return;
      entry.read(before, section);  // a rejected answer leaves no trace
      prompter_.say(fmt::format("  {} {}", entry.name, why));
    }
  }

  /// Yes or no; false leaves the section absent.
  bool ask_optional(const Entry& entry, void* section) {
    const bool present = entry.find(section) != nullptr;
    while (auto answer = answer_to(entry.question, present ? "yes" : "no", {"yes", "no"})) {
      const auto wanted = parse_bool(*answer);
      if (wanted == true) return true;
      if (wanted == false) {
        entry.clear(section);
        return false;
      }
      prompter_.say("  please answer yes or no");
    }
    return present;
  }

  void ask_model() {
    const std::vector<std::string> choices{"a folder with config.json and weights", "a small T5, built from scratch"};
    const bool from_scratch = config_.model.path.empty() && !config_.model.config.empty();
    auto answer = answer_to("Where does the model come from?", choices[from_scratch ? 1 : 0], choices);
    while (answer && *answer != choices[0] && *answer != choices[1]) {
      prompter_.say("  please choose 1 or 2");
      answer = answer_to("Where does the model come from?", choices[from_scratch ? 1 : 0], choices);
    }
    if (ended_) return;
    if (answer ? *answer == choices[1] : from_scratch) {
      config_.model.path.clear();
      if (config_.model.config.empty()) config_.model.config = kSmallT5;
      ask_text("Where is its tokenizer? (folder or spiece.model; `trainer tokenize train` makes one from text)",
               config_.tokenizer.path);
      ask_vocabulary();
    } else {
      config_.model.config.clear();
      ask_text("In which folder is the model?", config_.model.path);
    }
  }

  void ask_vocabulary() {
    Node model = from_json(config_.model.config);
    Node& size = model["vocab_size"];
    int64_t value = 32128;  // T5's own
    if (!size.is_null()) decode(size, value);
    while (auto answer =
               answer_to("How large is its vocabulary? (`trainer tokenize train` says it)", std::to_string(value))) {
      const auto wanted = parse_int(*answer);
      if (wanted && *wanted > 0) {
        value = *wanted;
        break;
      }
      prompter_.say(fmt::format("  vocab_size must be an integer above 0; is '{}'", shown(*answer)));
    }
    size = encode(value);
    config_.model.config = to_json(model);
  }

  void ask_text(const std::string& question, std::string& text) {
    if (auto answer = answer_to(question, text)) text = *answer;
  }

  Config& config_;
  Prompter& prompter_;
  bool ended_ = false;
};

Draft read_raw(const std::string& file, Config config) {
  Draft draft;
  draft.config = std::move(config);
  Node document = read_yaml_file(file, draft.problems);
  expand_environment(document, draft.problems);
  apply(document, "", draft);
  draft.problems.throw_if_any();
  return draft;
}

}  // namespace

void ask_questions(Config& config, Prompter& prompter) {
  if (config.num_processes == 0) config.num_processes = 1;
  Wizard(config, prompter).ask(root_table(), &config);
}

Prefill read_prefill(const std::string& file) {
  Problems problems;
  return {read_raw(file, {}).config, read_yaml_file(file, problems)};
}

void apply_answers(const std::string& file, Config& config) {
  config = read_raw(file, config).config;
}

}  // namespace trainer::config
