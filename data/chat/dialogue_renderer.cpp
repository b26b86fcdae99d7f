#include "data/chat/dialogue_renderer.h"

#include "data/chat/conversation.h"
#include "data/chat/learnt_part.h"
#include "engine/base/errors.h"

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
  Rendered rendered = render_dialogue(parts_->chat, turns, everyone ? config::Learn::kAll : config.learn, record);
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string& role = turns[i].at("role").get_ref<const std::string&>();
    if (!parts_->chat.expects(role))
      throw InputError("{}: turn {} has the role '{}', which the chat template {} does not name.", record.where(),
                       i + 1, role, parts_->chat.name());
  }
  return {std::move(rendered)};
}

}  // namespace trainer::data
