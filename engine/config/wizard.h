// The questions of `trainer config`: a walk over the tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/document.h"
#include "engine/config/sections.h"

namespace trainer::config {

/// Where answers come from: a terminal, a pipe, a test.
class Prompter {
 public:
  virtual ~Prompter() = default;
  /// What the user wrote, "" for keeping `current`; nothing when there is no more input. With `choices` the answer may
  /// be one of them or its number, from 1.
  virtual std::optional<std::string> ask(const std::string& question, const std::string& current,
                                         const std::vector<std::string>& choices) = 0;
  virtual void say(const std::string& line) = 0;
};

/// Asks for every option that has a question and that matters, given the answers before. Wrong answers are told and
/// asked for again; when the input ends, the rest stays as it is.
void ask_questions(Config& config, Prompter& prompter);

/// An existing file, as the wizard starts from it.
struct Prefill {
  Config config;
  Node document;  // as it is written
};
/// Errors: ConfigError when the file is not readable or not correct.
Prefill read_prefill(const std::string& file);

/// Puts the answers in `file` (a part of a configuration) over `config`. Errors: ConfigError.
void apply_answers(const std::string& file, Config& config);

/// The text of a configuration file: Accelerate's part as Accelerate writes it, our sections after it. What `previous`
/// has and what is still `before`'s stays as it was written, ${VAR} too.
std::string file_text(const Config& config, const Config& before, const Node& previous);

}  // namespace trainer::config
