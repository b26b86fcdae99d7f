// Renders the dialogues of every kind of record with a chat template.
#pragma once

#include <memory>
#include <vector>

#include "data/chat/rendered.h"
#include "data/readers/record.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// Renders the dialogues of a record (config.dialogue is their format) with the chat template of config.chat_template
/// or the tokenizer. Safe to use from several threads.
class DialogueRenderer {
 public:
  /// Errors: ConfigError for an unknown template, InputError with file and line for an invalid one.
  DialogueRenderer(const config::DataConfig& config, const Tokenizer& tokenizer);
  ~DialogueRenderer();

  /// One dialogue; with data.learn: each_turn one for each reply, which it ends with. Errors: InputError with file and
  /// line.
  std::vector<Rendered> render(const Record& record) const;
  /// The two dialogues of a pair (data/chat/pair.h). Errors: InputError with file and line.
  RenderedPair render_pair(const Record& record) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainer::data
