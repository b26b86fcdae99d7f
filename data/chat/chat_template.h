// The template of a run: found, read, and rendered for dialogues.
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
    std::string name, text;  // what it is called in messages; what it says
  };

  /// `option`: a file, the name of a built-in template, a template itself, or "" for the tokenizer's own; `with_tools`:
  /// its own for dialogues with tools. The tokenizer's special tokens are the template's variables.
  /// Errors: ConfigError for an unknown one, InputError with file and line for one that can't be used.
  ChatTemplate(const std::string& option, const Tokenizer& tokenizer, bool with_tools = false);

  /// True when the tokenizer brings a template of its own for dialogues with tools.
  static bool has_one_for_tools(const std::string& option, const Tokenizer& tokenizer);

  /// The text of the first `count` turns; `prompt`: with what asks for a reply. `record` is for messages.
  /// Errors: InputError when the template refuses them.
  jinja::Printed render(const Conversation& conversation, size_t count, bool prompt, const Record& record) const;

  /// True for a role that dialogues have everywhere, or that the template names.
  bool expects(const std::string& role) const;

  bool has_generation() const { return template_.has_generation(); }
  bool takes_tools() const { return template_.uses("tools"); }
  /// True when it prints the texts of content that is a list of parts.
  bool takes_parts() const { return takes_parts_; }
  const std::string& name() const { return source_.name; }
  /// The text of the token that ends a sequence; "" when there is none.
  const std::string& eos() const { return eos_; }

 private:
  bool prints_parts() const;

  Source source_;
  jinja::Template template_;
  jinja::Variables tokens_;
  std::string eos_;
  bool takes_parts_ = false;
};

/// The text of the template that `option` names, as above. Errors: ConfigError for an unknown one.
std::string chat_template_text(const std::string& option, const Tokenizer& tokenizer);

}  // namespace trainer::data
