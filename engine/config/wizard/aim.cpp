#include "engine/config/wizard/aim.h"

#include <algorithm>

#include "engine/config/wizard/asker.h"

namespace trainer::config {
namespace {

struct GoalChoice {
  Goal goal;
  std::string words;  // the name before the colon
  std::vector<Task> tasks;
};

const std::vector<GoalChoice>& goals() {
  static const std::vector<GoalChoice> all{
      {Goal::kAnswer,
       "answer: teach a model to answer (instructions, translation, summaries)",
       {Task::kSeq2SeqLm, Task::kCausalLm}},
      {Goal::kClassify, "classify: teach a model the classes of texts", {Task::kSequenceClassification}},
      {Goal::kContinue, "continue: teach a model to continue texts like yours", {Task::kCausalLm}},
      {Goal::kDialogue, "dialogue: teach a model to follow a dialogue", {Task::kCausalLm}},
      {Goal::kPreferences, "preferences: teach a model the better of two replies (DPO)", {Task::kCausalLm}},
      {Goal::kImages, "images: train a new model on the classes of images", {Task::kImageClassification}}};
  return all;
}

const std::string kScratch = "scratch: train a new model from scratch";
const std::string kNothing = "nothing yet: write only Accelerate's part of the file";

const std::string kHelp =
    "answer: each record has an input and the output to learn (T5, LLaMA, GPT-2 …).\n"
    "classify: each record has a text and its class (BERT, LLaMA, GPT-2 …).\n"
    "continue: texts without inputs: stories, code, articles (LLaMA, GPT-2 …).\n"
    "dialogue: turns of a user and an assistant, or a play (LLaMA, GPT-2 …).\n"
    "preferences: each record has two replies, of which one is better (DPO).\n"
    "images: MNIST's file format, and a new model.\n"
    "The others start from a pretrained model; scratch builds a new one.";

const GoalChoice& chosen(Goal goal) {
  return *std::find_if(goals().begin(), goals().end(), [&](const GoalChoice& choice) { return choice.goal == goal; });
}

Goal goal_called(const std::string& words) {
  return std::find_if(goals().begin(), goals().end(), [&](const GoalChoice& c) { return c.words == words; })->goal;
}

Goal goal_of(const WizardDraft& draft) {
  const DataConfig& data = draft.config.data;
  if (draft.config.dpo) return Goal::kPreferences;
  if (data.dialogue != Dialogue::kNone && !draft.has("data.task")) return Goal::kDialogue;
  switch (data.task) {
    case Task::kSeq2SeqLm:
      return Goal::kAnswer;
    case Task::kSequenceClassification:
      return Goal::kClassify;
    case Task::kImageClassification:
      return Goal::kImages;
    case Task::kCausalLm:
      break;
  }
  if (data.dialogue != Dialogue::kNone) return Goal::kDialogue;
  return draft.has("data.target") && !data.target.empty() ? Goal::kAnswer : Goal::kContinue;
}

/// The section dpo, which makes a run learn preferences.
void settle_loss(WizardDraft& draft, Goal goal) {
  if (goal == Goal::kPreferences) return draft.hold("dpo.beta");
  draft.erase("dpo");
  draft.erase("data.rejected");
}

}  // namespace

std::string name_of(Goal goal) {
  const std::string& words = chosen(goal).words;
  return words.substr(0, words.find(':'));
}

const std::vector<Task>& tasks_of(Goal goal) {
  return chosen(goal).tasks;
}

Aim aim_of(const WizardDraft& draft) {
  const Config& config = draft.config;
  const bool images = config.data.task == Task::kImageClassification;
  return {goal_of(draft), config.model.path.empty() && (images || !config.model.config.empty())};
}

std::optional<Aim> ask_aim(Asker& ask) {
  Aim aim = aim_of(ask.draft());
  std::vector<std::string> choices;
  for (const GoalChoice& choice : goals()) choices.push_back(choice.words);
  std::vector<std::string> kinds = choices;  // preferences adapt what a model has learned
  std::erase(kinds, chosen(Goal::kPreferences).words);
  choices.insert(choices.end(), {kScratch, kNothing});
  const std::string& usual = aim.from_scratch && aim.goal != Goal::kImages ? kScratch : chosen(aim.goal).words;
  const std::string answer = ask.choice("What do you want to do?", usual, choices, kHelp);
  if (answer == kNothing) return std::nullopt;
  std::string wanted = answer;
  if (answer == kScratch)
    wanted = ask.choice("What should the new model learn?",
                        aim.goal == Goal::kPreferences ? kinds.front() : chosen(aim.goal).words, kinds, kHelp);
  aim.goal = goal_called(wanted);
  const bool without_pretrained = aim.goal == Goal::kImages && ask.config().model.path.empty();
  aim.from_scratch = answer == kScratch || without_pretrained;
  const std::vector<Task>& tasks = tasks_of(aim.goal);
  const bool serves = std::find(tasks.begin(), tasks.end(), ask.config().data.task) != tasks.end();
  settle_loss(ask.draft(), aim.goal);
  ask.draft().assign("data.task", encode(serves ? ask.config().data.task : tasks.front()));
  return aim;
}

}  // namespace trainer::config
