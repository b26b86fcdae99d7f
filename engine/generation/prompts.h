#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/chat/conversation.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/generate_request.h"
#include "models/model.h"

namespace trainer::generation {

struct Prompt {
  std::string text;          // including what the chat template adds
  std::vector<int32_t> ids;  // as in training: of the text, without what the tokenizer puts after a whole text
};

/// Makes prompts as training makes the texts before the learned ones.
class Prompts {
 public:
  /// Errors: those of ChatTemplate, if there is a template.
  Prompts(const config::GenerateRequest& request, const data::Tokenizer& tokenizer, models::Task task);

  /// Of a text to continue, or of a user's message in a chat. Errors: InputError when it has no tokens.
  Prompt of_text(const std::string& text) const;
  /// Of a dialogue: objects with `role` and `content`, after request.system unless they have one. Errors: ConfigError
  /// without a chat template; InputError when it rejects the dialogue.
  Prompt of_dialogue(nlohmann::ordered_json turns) const;
  /// Calls `sink` with each prompt of request.input. Errors: InputError with file and line.
  void read(const std::function<void(Prompt)>& sink) const;
  /// The token with which a reply ends in a dialogue; none without a template.
  std::optional<int64_t> end_of_reply() const { return end_of_reply_; }

 private:
  Prompt of_record(const data::Record& record) const;
  Prompt rendered(data::Conversation conversation, const data::Record& record) const;
  /// How records store dialogues.
  config::DataConfig dialogues() const;

  const config::GenerateRequest& request_;
  const data::Tokenizer& tokenizer_;
  size_t trailing_ = 0;  // special tokens after a text
  bool pairs_ = false;   // sequence to sequence: the prompt is a whole text
  std::optional<data::ChatTemplate> template_;
  std::optional<int64_t> end_of_reply_;
};

}  // namespace trainer::generation
