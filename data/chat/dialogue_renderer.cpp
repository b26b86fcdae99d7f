#include "data/chat/dialogue_renderer.h"

#include "data/chat/conversation.h"
#include "data/chat/learnt_part.h"

namespace trainer::data {

struct DialogueRenderer::Parts {
  config::DataConfig config;
  ChatTemplate chat;
};

DialogueRenderer::DialogueRenderer(const config::DataConfig& config, const Tokenizer& tokenizer)
    : parts_(new Parts{config, ChatTemplate(config.chat_template, tokenizer)}) {}

DialogueRenderer::~DialogueRenderer() = default;

std::vector<Rendered> DialogueRenderer::render(const Record& record) const {
  const auto turns = conversation_of(record, parts_->config);
  const config::DataConfig& config = parts_->config;
  const bool everyone = config.dialogue == config::Dialogue::kPlay && config.character.empty();
  return {render_dialogue(parts_->chat, turns, everyone ? config::Learn::kAll : config.learn, record)};
}

}  // namespace trainer::data
