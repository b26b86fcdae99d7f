// What the user wants to do, from which the task, the questions and their defaults follow.
#pragma once

#include <string>
#include <vector>

#include "engine/config/wizard/draft.h"

namespace trainer::config {

enum class Goal { kAnswer, kClassify, kContinue, kDialogue, kPreferences, kImages };

struct Aim {
  Goal goal = Goal::kAnswer;
  bool from_scratch = false;  // a new model, without pretrained weights
};

/// "answer".
std::string name_of(Goal goal);
/// The tasks that serve the goal; the first one is used if the model doesn't decide.
const std::vector<Task>& tasks_of(Goal goal);
/// The aim of an existing configuration.
Aim aim_of(const WizardDraft& draft);

}  // namespace trainer::config
