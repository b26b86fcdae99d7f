#include "data/chat/chat_template.h"

#include <filesystem>
#include <set>

#include "data/chat/built_in_templates.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

constexpr int64_t kMaxFile = int64_t{1} << 20;

using Source = ChatTemplate::Source;

Source find_source(const std::string& option, const Tokenizer& tokenizer) {
  if (option.empty()) {
    const std::string* own = tokenizer.chat_template();
    if (own == nullptr)
      throw ConfigError("data.chat_template: the tokenizer brings no template; name a file or one of {}.",
                        fmt::join(built_in_template_names(), ", "));
    return {"the tokenizer's chat template", *own};
  }
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

ChatTemplate::ChatTemplate(const std::string& option, const Tokenizer& tokenizer)
    : source_(find_source(option, tokenizer)), template_(read(source_)) {
  const std::pair<const char*, int32_t> tokens[] = {{"bos_token", tokenizer.bos_id()},
                                                    {"eos_token", tokenizer.eos_id()},
                                                    {"unk_token", tokenizer.unk_id()},
                                                    {"pad_token", tokenizer.pad_id()}};
  for (const auto& [name, id] : tokens)
    if (id >= 0) tokens_.emplace_back(name, tokenizer.piece_of(id));
  if (tokenizer.eos_id() >= 0) eos_ = tokenizer.piece_of(tokenizer.eos_id());
}

bool ChatTemplate::expects(const std::string& role) const {
  static const std::set<std::string> usual{"system",  "developer", "user",      "assistant",     "tool",
                                           "ipython", "function",  "tool_call", "tool_response", "observation"};
  return usual.contains(role) || source_.text.find("'" + role + "'") != std::string::npos ||
         source_.text.find('"' + role + '"') != std::string::npos;
}

jinja::Printed ChatTemplate::render(const nlohmann::ordered_json& turns, size_t count, bool prompt,
                                    const Record& record) const {
  nlohmann::ordered_json first = nlohmann::ordered_json::array();
  for (size_t i = 0; i < count; ++i) first.push_back(turns[i]);
  try {
    jinja::Variables variables = tokens_;
    variables.emplace_back("messages", jinja::from_json(first));
    variables.emplace_back("tools", jinja::None{});
    variables.emplace_back("documents", jinja::None{});
    variables.emplace_back("add_generation_prompt", prompt);
    return template_.render(variables);
  } catch (const jinja::Raised& error) {
    throw InputError("{}: the chat template refuses this dialogue: {} ({})", record.where(), error.what(),
                     place(source_.name, error.line()));
  } catch (const jinja::Failure& error) {
    throw InputError("{}: the chat template fails: {} ({})", record.where(), error.what(),
                     place(source_.name, error.line()));
  } catch (const jinja::BadOperation& error) {
    throw InputError("{}: the dialogue can't be given to a template: {}", record.where(), error.what());
  }
}

}  // namespace trainer::data
