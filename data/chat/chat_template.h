// The chat template of a run: finds it, reads it and renders dialogues.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "data/chat/conversation.h"
#include "data/chat/jinja/template.h"
#include "data/readers/record.h"
#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// Safe to use from several threads.
class ChatTemplate {
 public:
  struct Source {
    std::string name, text;  // its name in messages; its Jinja source
  };

  /// `option`: a file, the name of a built-in template, a template itself, or "" for the tokenizer's own; `with_tools`:
  /// the tokenizer's template for dialogues with tools. The tokenizer's special tokens are variables of the template.
  /// Errors: ConfigError for an unknown template, InputError with file and line for an invalid one.
  ChatTemplate(const std::string& option, const Tokenizer& tokenizer, bool with_tools = false);

  /// True when the tokenizer has a separate template for dialogues with tools.
  static bool has_one_for_tools(const std::string& option, const Tokenizer& tokenizer);

  /// The text of the first `count` turns; `prompt`: with the generation prompt. `record` is for messages.
  /// Errors: InputError when the template rejects them.
  jinja::Printed render(const Conversation& conversation, size_t count, bool prompt, const Record& record) const;

  /// True for a common role, or one that the template names.
  bool expects(const std::string& role) const;

  bool has_generation() const { return template_.has_generation(); }
  bool takes_tools() const { return template_.uses("tools"); }
  /// True when the template prints the texts of content that is a list of parts.
  bool takes_parts() const { return takes_parts_; }
  const std::string& name() const { return source_.name; }
  /// The text of the end-of-sequence token; "" when there is none.
  const std::string& eos() const { return eos_; }

 private:
  bool prints_parts() const;

  Source source_;
  jinja::Template template_;
  jinja::Variables tokens_;
  std::string eos_;
  bool takes_parts_ = false;
};

/// The source of the template that `option` names, as above. Errors: ConfigError for an unknown one.
std::string chat_template_text(const std::string& option, const Tokenizer& tokenizer);

}  // namespace trainer::data
