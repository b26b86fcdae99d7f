#include "engine/generation/prompts.h"

#include <fmt/ranges.h>

#include "data/chat/built_in_templates.h"
#include "data/chat/turn_ends.h"
#include "data/readers/readers.h"
#include "data/readers/record_template.h"
#include "engine/base/errors.h"

namespace trainer::generation {
namespace {

bool has_template(const config::GenerateRequest& request, const data::Tokenizer& tokenizer) {
  return !request.chat_template.empty() || !tokenizer.chat_templates().empty();
}

}  // namespace

Prompts::Prompts(const config::GenerateRequest& request, const data::Tokenizer& tokenizer, models::Task task)
    : request_(request),
      tokenizer_(tokenizer),
      trailing_(data::trailing_special_tokens(tokenizer)),
      pairs_(task == models::Task::kSeq2SeqLm) {
  if (!has_template(request, tokenizer)) return;
  template_.emplace(request.chat_template, tokenizer);
  if (const auto ends = data::find_turn_ends(*template_, tokenizer); !ends.inner.empty())
    end_of_reply_ = tokenizer.id_of(ends.inner);
}

Prompt Prompts::of_text(const std::string& text) const {
  if (request_.chat) return of_dialogue({{{"role", "user"}, {"content", text}}});
  Prompt prompt{text, tokenizer_.encode(text, true)};
  if (!pairs_) prompt.ids.resize(prompt.ids.size() - std::min(trailing_, prompt.ids.size()));
  if (prompt.ids.empty())  // GPT-2 puts nothing before a text
    for (const int32_t id : {tokenizer_.bos_id(), tokenizer_.eos_id()})
      if (prompt.ids.empty() && id >= 0) prompt.ids = {id};
  if (prompt.ids.empty()) throw InputError("the prompt has no tokens: give a text to continue.");
  return prompt;
}

config::DataConfig Prompts::dialogues() const {
  config::DataConfig config;
  config.dialogue = config::Dialogue::kMessages;
  config.learn = config::Learn::kAll;  // there need be no reply yet
  config.system = request_.system;
  return config;
}

Prompt Prompts::of_dialogue(nlohmann::ordered_json turns) const {
  return rendered(data::with_system_and_tools(std::move(turns), {}, dialogues()), {});
}

Prompt Prompts::rendered(data::Conversation conversation, const data::Record& record) const {
  if (!template_)
    throw ConfigError(
        "the tokenizer has no chat template.\n  Name a file with --chat_template, or one of {}; or give --prompt "
        "without --chat to continue a text.",
        fmt::join(data::built_in_template_names(), ", "));
  if (!template_->takes_parts()) data::join_parts(conversation);
  Prompt prompt;
  prompt.text = template_->render(conversation, conversation.turns.size(), true, record).text;
  prompt.ids = tokenizer_.encode(prompt.text, false);
  return prompt;
}

Prompt Prompts::of_record(const data::Record& record) const {
  if (!request_.source.empty()) return of_text(data::Template(request_.source, "--source").render(record));
  if (record.find("messages") != nullptr) return rendered(data::conversation_of(record, dialogues()), record);
  for (const char* const column : {"prompt", "text"})
    if (const std::string* const text = record.find(column)) return of_text(*text);
  if (record.fields.size() == 1) return of_text(record.fields[0].second);
  std::vector<std::string> names;
  for (const auto& field : record.fields) names.push_back(field.first);
  throw InputError(
      "{}: no column messages, prompt or text; it has {}.\n  Make the prompt from them with --source, for example "
      "--source '{{{}}}'.",
      record.where(), fmt::join(names, ", "), names.front());
}

void Prompts::read(const std::function<void(Prompt)>& sink) const {
  config::DataSource source;
  source.path = {{request_.input}};
  data::read_records(source, [&](data::Record&& record) { sink(of_record(record)); });
}

}  // namespace trainer::generation
