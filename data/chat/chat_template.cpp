#include "data/chat/chat_template.h"

#include <filesystem>
#include <set>

#include "data/chat/built_in_templates.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/plan/inline_template.h"

namespace trainer::data {
namespace {

constexpr int64_t kMaxFile = int64_t{1} << 20;
constexpr const char* kToolUse = "tool_use";  // transformers' name of the template for dialogues with tools

using Source = ChatTemplate::Source;

Source find_source(const std::string& option, const Tokenizer& tokenizer, bool with_tools) {
  if (option.empty()) {
    const std::string* own = with_tools ? tokenizer.chat_template(kToolUse) : tokenizer.chat_template();
    if (own == nullptr)
      throw ConfigError("data.chat_template: the tokenizer has no chat template; name a file or one of {}.",
                        fmt::join(built_in_template_names(), ", "));
    return {with_tools ? "the tokenizer's chat template for tools" : "the tokenizer's chat template", *own};
  }
  if (config::is_inline_template(option)) return {"data.chat_template", option};
  if (const char* known = built_in_template(option)) return {option, known};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(option, ignored))
    throw ConfigError("data.chat_template: {} is neither a file nor one of {}.", option,
                      fmt::join(built_in_template_names(), ", "));
  return {option, read_file(option, kMaxFile)};
}

std::string place(const std::string& name, int line) {
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

jinja::Template read(const Source& source) {
  try {
    return jinja::Template(source.text);
  } catch (const jinja::Failure& error) {
    throw InputError("{}: {}.", place(source.name, error.line()), error.what());
  }
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& option, const Tokenizer& tokenizer, bool with_tools)
    : source_(find_source(option, tokenizer, with_tools)), template_(read(source_)) {
  const std::pair<const char*, int32_t> tokens[] = {{"bos_token", tokenizer.bos_id()},
                                                    {"eos_token", tokenizer.eos_id()},
                                                    {"unk_token", tokenizer.unk_id()},
                                                    {"pad_token", tokenizer.pad_id()}};
  for (const auto& [name, id] : tokens)
    if (id >= 0) tokens_.emplace_back(name, tokenizer.piece_of(id));
  if (tokenizer.eos_id() >= 0) eos_ = tokenizer.piece_of(tokenizer.eos_id());
  takes_parts_ = prints_parts();
}

bool ChatTemplate::has_one_for_tools(const std::string& option, const Tokenizer& tokenizer) {
  return option.empty() && tokenizer.chat_template(kToolUse) != nullptr;
}

/// Renders a probe: a template without support for parts fails, or prints the list as Python writes it.
bool ChatTemplate::prints_parts() const {
  const auto part = [](const char* text) { return nlohmann::ordered_json{{"type", "text"}, {"text", text}}; };
  Conversation probe;
  for (const char* role : {"user", "assistant"})
    probe.turns.push_back({{"role", role}, {"content", {part("first part,"), part("second part.")}}});
  try {
    const std::string text = render(probe, probe.turns.size(), false, {}).text;
    const auto holds = [&](const char* words) { return text.find(words) != std::string::npos; };
    return holds("first part,") && holds("second part.") && !holds("'type'") && !holds("\"type\"");
  } catch (const InputError&) {
    return false;
  }
}

bool ChatTemplate::expects(const std::string& role) const {
  static const std::set<std::string> usual{"system",  "developer", "user",      "assistant",     "tool",
                                           "ipython", "function",  "tool_call", "tool_response", "observation"};
  return usual.contains(role) || source_.text.find("'" + role + "'") != std::string::npos ||
         source_.text.find('"' + role + '"') != std::string::npos;
}

jinja::Printed ChatTemplate::render(const Conversation& conversation, size_t count, bool prompt,
                                    const Record& record) const {
  nlohmann::ordered_json first = nlohmann::ordered_json::array();
  for (size_t i = 0; i < count; ++i) first.push_back(conversation.turns[i]);
  try {
    jinja::Variables variables = tokens_;
    for (const auto& [name, value] : conversation.variables.items())
      variables.emplace_back(name, jinja::from_json(value));
    variables.emplace_back("messages", jinja::from_json(first));
    variables.emplace_back("tools", jinja::from_json(conversation.tools));
    variables.emplace_back("documents", jinja::None{});
    variables.emplace_back("add_generation_prompt", prompt);
    return template_.render(variables);
  } catch (const jinja::Raised& error) {
    throw InputError("{}: the chat template rejects this dialogue: {} ({})", record.where(), error.what(),
                     place(source_.name, error.line()));
  } catch (const jinja::Failure& error) {
    throw InputError("{}: the chat template fails: {} ({})", record.where(), error.what(),
                     place(source_.name, error.line()));
  } catch (const jinja::BadOperation& error) {
    throw InputError("{}: the dialogue can't be passed to a chat template: {}", record.where(), error.what());
  }
}

std::string chat_template_text(const std::string& option, const Tokenizer& tokenizer) {
  return find_source(option, tokenizer, /*with_tools=*/false).text;
}

}  // namespace trainer::data
