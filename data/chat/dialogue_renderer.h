// Dialogues of every kind of record, as text by a chat template.
#pragma once

#include <memory>
#include <vector>

#include "data/chat/rendered.h"
#include "data/readers/record.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// Renders the dialogues of a record (config.dialogue says how it holds them) with the chat template that
/// config.chat_template names or the tokenizer brings. Safe to use from several threads.
class DialogueRenderer {
 public:
  /// Errors: ConfigError for an unknown template, InputError with file and line for one that can't be used.
  DialogueRenderer(const config::DataConfig& config, const Tokenizer& tokenizer);
  ~DialogueRenderer();

  /// One for most kinds; a play's text gives many. Errors: InputError with file and line.
  std::vector<Rendered> render(const Record& record) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainer::data
