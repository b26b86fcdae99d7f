// axolotl's dataset types: how a record becomes a prompt and a reply.
#pragma once

#include <string>

#include "engine/config/document/document.h"

namespace trainer::config::axolotl {

/// How records are read: the same for all files of a run. Empty: not set.
struct Reading {
  std::string dialogue = "none", messages, source, target, chat_template, system, rejected;
  bool groups = false;  // texts are joined: data.group_texts
  bool operator==(const Reading&) const = default;
};

/// What a type is converted to, or why it can't be.
struct TypeReading {
  Reading reading;
  std::string reason;   // not empty: there is no such reading, and this says why
  std::string differs;  // not empty: samples differ from axolotl's in this
};

/// `type`: a type's name, other than those that read a dialogue or a plain text.
/// Source: axolotl's prompt_strategies, prompters and prompt_tokenizers.
TypeReading reading_of_type(const std::string& type);

/// The same for the types of `rl: dpo`, other than chat_template's.
TypeReading reading_of_pair_type(const std::string& type);

/// `keys`: a type that the file defines itself, by its columns and formats.
TypeReading reading_of_own_type(const Node& keys);

/// All names that reading_of_type converts, or knows the reason why it can't.
std::string type_table();

}  // namespace trainer::config::axolotl
