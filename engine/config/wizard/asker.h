// Asks for options, with the question, the choices and the limits of their table entries.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/config/wizard/aim.h"
#include "engine/config/wizard/interview.h"
#include "engine/config/wizard/wizard.h"

namespace trainer::config {

/// How one question differs from the option's table.
struct Wording {
  std::string text;                                // "": the table's
  std::string fallback;                            // the default if the file doesn't set it; "": the option's default
  std::vector<std::string> choices;                // empty: the table's
  std::string (*refuse)(const Config&) = nullptr;  // "" or why the answer conflicts with earlier ones
  std::string help;                                // "": the table's
  std::string needed;                              // the reply to an empty answer; "": it can be empty
  std::function<std::string()> fits = nullptr;     // "" or why the answer, given or kept, is refused
  std::function<std::string()> doubt = nullptr;    // "" or why to ask once more; a repeated answer is accepted
};

class Asker {
 public:
  Asker(WizardDraft& draft, Interview& interview, const Surroundings& around)
      : draft_(draft), interview_(interview), around_(around) {}

  WizardDraft& draft() { return draft_; }
  Config& config() { return draft_.config; }
  const Machine& machine() const { return around_.machine; }

  /// Asks for the option `path`; afterwards the document contains it, even if it was kept.
  void option(const std::string& path, const Wording& wording = {});
  bool yes(const std::string& text, bool current, const std::string& help);
  /// One of `choices`; the text before a colon is enough.
  std::string choice(const std::string& text, const std::string& current, const std::vector<std::string>& choices,
                     const std::string& help);
  /// An integer above 0; `value` is the default and receives the answer.
  void number(const std::string& text, int64_t& value, const std::string& help);
  void say(const std::string& line) { interview_.say(line); }

  /// What is known about the draft's model, or why it can't be trained; nullopt if unknown.
  std::optional<ModelDescription> described_model() const;
  /// The same of a folder, or of the text of a config.json.
  std::optional<ModelDescription> described(const std::string& model) const;
  /// The draft's model, if it is known and can be trained.
  std::optional<ModelDescription> model() const;
  std::optional<TokenizerDescription> tokenizer() const;
  std::optional<DataDescription> data() const;
  /// The first samples as the model would get them, or why there are none; nullopt if unknown.
  std::optional<SamplesDescription> samples() const;
  /// A path of the file, as it can be opened from the working folder.
  std::string opened(const std::string& path) const;
  /// The same for a folder, or for a Hub name that is in the cache.
  std::string opened_or_cached(const std::string& path) const;

 private:
  Question question_for(const Entry& entry, const std::string& path, const Wording& wording);
  Node node_of(const Entry& entry, const std::string& answer) const;
  std::string path_of(const Entry& entry, std::string answer) const;
  std::string accept(const std::string& path, const Node& node, const Wording& wording, bool sure);

  WizardDraft& draft_;
  Interview& interview_;
  const Surroundings& around_;
};

/// Accelerate's questionnaire.
void ask_accelerate(Asker& ask);
void ask_deepspeed(Asker& ask);
void ask_fsdp(Asker& ask);
void ask_megatron(Asker& ask);

/// What to train, and how.
void ask_training(Asker& ask);

/// What the user wants to do; nullopt: nothing yet.
std::optional<Aim> ask_aim(Asker& ask);
/// The model and its tokenizer, which must serve the aim. They settle the task.
void ask_model(Asker& ask, const Aim& aim);
/// The samples, which must match the goal and the tokenizer.
void ask_data(Asker& ask, Goal goal);

}  // namespace trainer::config
