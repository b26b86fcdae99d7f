// Asking for options: the question, the choices and the limits of their table entries.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/config/wizard/interview.h"
#include "engine/config/wizard/wizard.h"

namespace trainer::config {

/// How one question differs from what the option's table says.
struct Wording {
  std::string text;                                // "": the table's
  std::string fallback;                            // what a file that says nothing gets; "": the option's default
  std::vector<std::string> choices;                // empty: the table's
  std::string (*refuse)(const Config&) = nullptr;  // "" or why the answer doesn't go with the ones before
  std::string needed;                              // what an empty answer is told; "": it may be empty
  std::function<std::string()> fits = nullptr;     // "" or why the draft can't have the answer, given or kept
  std::function<std::string()> doubt = nullptr;    // "" or why it is asked for once more; who repeats it means it
};

class Asker {
 public:
  Asker(WizardDraft& draft, Interview& interview, const Surroundings& around)
      : draft_(draft), interview_(interview), around_(around) {}

  WizardDraft& draft() { return draft_; }
  Config& config() { return draft_.config; }
  const Machine& machine() const { return around_.machine; }

  /// Asks for the option `path`; kept or not, it stands in the document then.
  void option(const std::string& path, const Wording& wording = {});
  bool yes(const std::string& text, bool current);
  /// One of `choices`; what stands before a colon in one is enough.
  std::string choice(const std::string& text, const std::string& current, const std::vector<std::string>& choices);
  /// An integer above 0; `value` is what is there, and then the answer.
  void number(const std::string& text, int64_t& value);
  /// A text that no option holds as it is typed; `take` says why it is not acceptable, or "".
  void text(const std::string& text, const std::string& current, const Interview::Take& take);
  void say(const std::string& line) { interview_.say(line); }

  /// What is known about the model that the draft names so far, or why that can't be trained; nothing: nobody can tell.
  std::optional<ModelDescription> described_model() const;
  /// The same, for a model that can be trained.
  std::optional<ModelDescription> model() const;
  std::optional<TokenizerDescription> tokenizer() const;
  std::optional<DataDescription> data() const;
  /// A path of the file, as it can be opened from here.
  std::string opened(const std::string& path) const;
  /// The same of a folder, or of a name of the Hub that its cache holds.
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

/// The task; false: none is wanted yet.
bool ask_task(Asker& ask);
/// The model and its tokenizer, which must fit the task.
void ask_model(Asker& ask);
/// The samples, which must fit the task and the tokenizer.
void ask_data(Asker& ask);

}  // namespace trainer::config
