#include "engine/config/wizard/asker.h"

#include <algorithm>

#include "engine/config/machine/hub_folder.h"
#include "engine/config/plan/reader.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// An option's value as the question shows it, and as people type it: "5e-05". (Files have 5.0e-05, because YAML 1.1
/// reads 5e-05 as a text.)
std::string shown_answer(const Entry& entry, const Node& value) {
  if (entry.kind.type == Type::kBoolean) return value.text == "true" ? "yes" : "no";
  std::string answer = typed(value);
  const std::size_t exponent = entry.kind.type == Type::kNumber ? answer.find(".0e") : std::string::npos;
  return exponent == std::string::npos ? answer : answer.erase(exponent, 2);
}

/// The choice that matches `answer` in any case, or the answer itself.
std::string spelled(const std::string& answer, const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (lower(choice) == lower(answer)) return choice;
  }
  return answer;
}

}  // namespace

Question Asker::question_for(const Entry& entry, const std::string& path, const Wording& wording) {
  const Node value = draft_.value(path);
  const bool given = draft_.has(path) || !same(value, entry.initial);
  Question question{wording.text.empty() ? entry.question : wording.text, shown_answer(entry, value), {}};
  question.help = fmt::format("{}\nIn the file: {}", wording.help.empty() ? entry.help : wording.help, path);
  if (!given && !wording.fallback.empty()) question.current = wording.fallback;
  if (entry.kind.type == Type::kBoolean) {
    question.kind = Question::Kind::kBoolean;
    return question;
  }
  question.choices = wording.choices.empty() ? entry.kind.choices : wording.choices;
  if (question.choices.empty()) return question;
  question.kind = Question::Kind::kChoice;
  if (contains(question.choices, question.current)) return question;
  if (wording.choices.empty()) {  // an unsupported value can remain in a file for another machine
    question.choices.push_back(question.current);
  } else {
    question.current = question.choices.front();
  }
  return question;
}

/// Sets the option and checks it against the earlier answers; a refused value leaves no trace.
std::string Asker::accept(const std::string& path, const Node& node, const Wording& wording, bool sure) {
  const WizardDraft before = draft_;
  std::string why = draft_.set(path, node);
  if (why.empty() && wording.refuse) why = wording.refuse(draft_.config);
  if (why.empty() && wording.fits) why = wording.fits();
  if (why.empty() && wording.doubt && !sure) why = wording.doubt();
  if (!why.empty()) draft_ = before;
  return why;
}

void Asker::option(const std::string& path, const Wording& wording) {
  const Place place = find_option(draft_.config, path);
  if (!place.entry) throw InternalError("the wizard asks for '{}', which is not an option", path);
  const Entry& entry = *place.entry;
  const Question question = question_for(entry, path, wording);
  const std::string before = shown_answer(entry, draft_.value(path));
  const auto keep = [&]() -> std::string {
    if (question.current.empty()) return wording.needed;
    return wording.fits ? accept(path, node_of_answer(entry, question.current), wording, true) : "";
  };
  const auto take = [&](const std::string& answer) -> std::string {
    const std::string chosen = spelled(answer, question.choices);
    if (draft_.has(path) && chosen == before) {
      draft_.hold(path);
      return keep();
    }
    if (question.kind == Question::Kind::kBoolean && !parse_bool(answer)) return "Please enter yes or no.";
    return accept(path, node_of(entry, chosen), wording, interview_.was_refused(question.text, answer));
  };
  if (interview_.ask(question, take, keep)) return;
  if (question.current != before) draft_.set(path, node_of_answer(entry, question.current));
  draft_.hold(path);
}

bool Asker::yes(const std::string& text, bool current, const std::string& help) {
  bool answer = current;
  interview_.ask({text, current ? "yes" : "no", {}, Question::Kind::kBoolean, help}, [&](const std::string& word) {
    const auto truth = parse_bool(word);
    if (truth) answer = *truth;
    return std::string(truth ? "" : "Please enter yes or no.");
  });
  return answer;
}

std::string Asker::choice(const std::string& text, const std::string& current, const std::vector<std::string>& choices,
                          const std::string& help) {
  std::string answer = current;
  interview_.ask({text, current, choices, Question::Kind::kChoice, help}, [&](const std::string& word) -> std::string {
    std::string chosen = spelled(word, choices);
    for (const std::string& full : choices)
      if (full.starts_with(lower(word) + ":")) chosen = full;
    if (!contains(choices, chosen))
      return fmt::format("Please choose one of the options; '{}' is not one of them.", shown(word));
    answer = chosen;
    return "";
  });
  return answer;
}

void Asker::number(const std::string& text, int64_t& value, const std::string& help) {
  interview_.ask({text, std::to_string(value), {}, Question::Kind::kText, help}, [&](const std::string& answer) {
    const auto wanted = parse_int(answer);
    if (!wanted || *wanted < 1) return fmt::format("Please enter an integer above 0; '{}' is not one.", shown(answer));
    value = *wanted;
    return std::string();
  });
}

std::optional<ModelDescription> Asker::described_model() const {
  const ModelConfig& model = draft_.config.model;
  if (model.path.empty() && model.config.empty()) return std::nullopt;
  return described(model.path.empty() ? model.config : opened_or_cached(model.path));
}

std::optional<ModelDescription> Asker::described(const std::string& model) const {
  return around_.describe_model ? around_.describe_model(model, name_of(draft_.config.data.task)) : std::nullopt;
}

std::optional<ModelDescription> Asker::model() const {
  auto model = described_model();
  if (model && !model->error.empty()) model.reset();
  return model;
}

std::optional<TokenizerDescription> Asker::tokenizer() const {
  const std::string& own = draft_.config.tokenizer.path;
  const std::string& path = own.empty() ? draft_.config.model.path : own;
  if (!around_.describe_tokenizer || path.empty()) return std::nullopt;
  return around_.describe_tokenizer(opened_or_cached(path));
}

std::optional<DataDescription> Asker::data() const {
  if (!around_.describe_data || draft_.config.data.train.path.empty()) return std::nullopt;
  DataConfig data = draft_.config.data;
  for (std::string& path : data.train.path) path = opened(path);
  return around_.describe_data(data);
}

std::optional<SamplesDescription> Asker::samples() const {
  const Config& config = draft_.config;
  if (!around_.describe_samples || config.data.train.path.empty()) return std::nullopt;
  Config asked;
  asked.seed = config.seed;
  asked.data = config.data;
  for (std::string& path : asked.data.train.path) path = opened(path);
  asked.data.validation = {};
  asked.checkpoint.resume_from_checkpoint = "false";
  asked.model.config = config.model.config;
  if (!config.model.path.empty()) asked.model.path = opened_or_cached(config.model.path);
  if (!config.tokenizer.path.empty()) asked.tokenizer.path = opened_or_cached(config.tokenizer.path);
  return around_.describe_samples(asked);
}

std::string Asker::opened(const std::string& path) const {
  return absolute_path(path, around_.folder);
}

std::string Asker::opened_or_cached(const std::string& path) const {
  const std::string absolute = opened(path);
  std::error_code ignored;
  const std::string cached = std::filesystem::exists(absolute, ignored) ? "" : hub_folder(path);
  return cached.empty() ? absolute : cached;
}

/// A path is typed relative to the working folder, possibly in quotes as for a shell. A Hub name stays as it is, unless
/// a folder has the same name.
std::string Asker::path_of(const Entry& entry, std::string answer) const {
  const char quote = answer.empty() ? ' ' : answer.front();
  if (answer.size() > 1 && (quote == '"' || quote == '\'') && answer.back() == quote)
    answer = answer.substr(1, answer.size() - 2);
  while (answer.size() > 1 && answer.ends_with('/')) answer.pop_back();
  if (around_.here == around_.folder || answer.empty() || answer.front() == '~' || contains(entry.keywords, answer))
    return answer;
  const std::string absolute = absolute_path(answer, around_.here);
  std::error_code ignored;
  return entry.hub && is_hub_name(answer) && !std::filesystem::exists(absolute, ignored) ? answer : absolute;
}

Node Asker::node_of(const Entry& entry, const std::string& answer) const {
  if (!entry.path) return node_of_answer(entry, answer);
  const std::string whole = path_of(entry, answer);
  std::error_code ignored;
  const bool is_list = entry.kind.type == Type::kTexts;
  if (is_list && std::filesystem::exists(opened(whole), ignored)) return Node::list({whole});  // commas in its name
  if (!is_list) return Node::scalar(whole);
  Node node = node_of_answer(entry, answer);
  for (Node& item : node.items) item.text = path_of(entry, item.text);
  return node;
}

}  // namespace trainer::config
