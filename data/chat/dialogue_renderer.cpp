#include "data/chat/dialogue_renderer.h"

#include <optional>

#include "data/chat/conversation.h"
#include "data/chat/learned_part.h"
#include "data/chat/pair.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

DialogueTemplate open_template(const config::DataConfig& config, const Tokenizer& tokenizer, bool with_tools) {
  DialogueTemplate out{ChatTemplate(config.chat_template, tokenizer, with_tools), {}};
  if (config.learn != config::Learn::kAll && !out.chat.has_generation()) out.ends = find_turn_ends(out.chat, tokenizer);
  return out;
}

void check_roles(const Conversation& conversation, const ChatTemplate& chat, const Record& record) {
  size_t number = 0;
  for (const auto& turn : conversation.turns) {
    const std::string& role = turn.at("role").get_ref<const std::string&>();
    ++number;
    if (!chat.expects(role))
      throw InputError("{}: turn {} has the role '{}', which {} does not mention.", record.where(), number, role,
                       chat.name());
  }
}

/// A dialogue for each reply from turn `first` on: the turns up to it, as a model reads them that has to reply.
std::vector<Rendered> render_each(const DialogueTemplate& with, const Conversation& conversation, size_t first,
                                  const Record& record) {
  std::vector<Rendered> out;
  Conversation begun{nlohmann::ordered_json::array(), conversation.tools, conversation.variables};
  for (const auto& turn : conversation.turns) {
    begun.turns.push_back(turn);
    if (begun.turns.size() > first && is_reply(turn))
      out.push_back(render_dialogue(with, begun, config::Learn::kLastTurn, record));
  }
  if (out.empty()) throw InputError("{}: the completion has no assistant turn.", record.where());
  return out;
}

}  // namespace

struct DialogueRenderer::Parts {
  config::DataConfig config;
  DialogueTemplate plain;
  std::optional<DialogueTemplate> for_tools;  // set when the tokenizer has a separate template for dialogues with tools

  /// The template for `conversation`, whose contents become what it prints.
  const DialogueTemplate& template_for(Conversation& conversation, const Record& record) const {
    const bool tools = !conversation.tools.is_null();
    const DialogueTemplate& with = tools && for_tools ? *for_tools : plain;
    if (tools && !conversation.tools.empty() && !with.chat.takes_tools())
      throw InputError(
          "{}: the record has `tools`, which {} never prints.\n"
          "Set data.chat_template to a template that supports tools, or remove the column.",
          record.where(), with.chat.name());
    if (!with.chat.takes_parts()) join_parts(conversation);
    return with;
  }
};

DialogueRenderer::DialogueRenderer(const config::DataConfig& config, const Tokenizer& tokenizer)
    : parts_(new Parts{config, open_template(config, tokenizer, false), {}}) {
  if (ChatTemplate::has_one_for_tools(config.chat_template, tokenizer))
    parts_->for_tools = open_template(config, tokenizer, true);
}

DialogueRenderer::~DialogueRenderer() = default;

std::vector<Rendered> DialogueRenderer::render(const Record& record) const {
  const config::DataConfig& config = parts_->config;
  Conversation conversation = conversation_of(record, config);
  const DialogueTemplate& with = parts_->template_for(conversation, record);
  const bool everyone = config.dialogue == config::Dialogue::kPlay && config.character.empty();
  const config::Learn learn = everyone ? config::Learn::kAll : config.learn;
  std::vector<Rendered> rendered;
  if (learn == config::Learn::kEachTurn)
    rendered = render_each(with, conversation, conversation.prompt_turns, record);
  else if (conversation.prompt_turns > 0 && learn != config::Learn::kAll)
    rendered.push_back(render_reply(with, conversation, conversation.prompt_turns, record));
  else
    rendered.push_back(render_dialogue(with, conversation, learn, record));
  check_roles(conversation, with.chat, record);
  return rendered;
}

RenderedPair DialogueRenderer::render_pair(const Record& record) const {
  Pair pair = pair_of(record, parts_->config);
  RenderedPair rendered;
  rendered.same = pair.chosen.turns == pair.rejected.turns;
  const std::pair<Conversation&, Rendered&> texts[] = {{pair.chosen, rendered.chosen},
                                                       {pair.rejected, rendered.rejected}};
  for (const auto& [conversation, text] : texts) {
    const DialogueTemplate& with = parts_->template_for(conversation, record);
    text = render_reply(with, conversation, pair.prompt_turns, record);
    check_roles(conversation, with.chat, record);
  }
  return rendered;
}

}  // namespace trainer::data
